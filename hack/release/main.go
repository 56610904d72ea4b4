// Command release makes what MLKeeper publishes, without Docker. The command image makes one image of one binary and pushes it, check
// says before the binaries of a release are compiled whether it can be made, dist makes everything of it from them, and push publishes its
// images. The same inputs give the same files, byte for byte. Nothing is compiled here: hack/release.sh does that.
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	if err := dispatch(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func dispatch(args []string) error {
	commands := map[string]func([]string) error{"image": runImage, "check": runCheck, "dist": runDist, "push": runPush}
	if len(args) == 0 || commands[args[0]] == nil {
		return errors.New("give one of the commands image, check, dist and push")
	}
	return commands[args[0]](args[1:])
}
