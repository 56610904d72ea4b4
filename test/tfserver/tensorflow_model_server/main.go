// Command tensorflow_model_server is the stand-in for the program of that name: see the package above.
package main

import (
	"os"

	"mlkeeper.dev/test/tfserver"
)

func main() { os.Exit(tfserver.Main(os.Args[1:], tfserver.Disk{})) }
