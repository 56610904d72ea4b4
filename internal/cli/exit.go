package cli

import "github.com/spf13/cobra"

// Exit ends the program with a status other than 1. Its error, where there is one, is printed first.
type Exit struct {
	Status int
	Err    error
}

// Error implements error.
func (e *Exit) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap gives the error itself.
func (e *Exit) Unwrap() error { return e.Err }

// failWith makes every failure of a command end with a status: those of its flags and arguments, and those of running.
func failWith(status int, cmd *cobra.Command) {
	wrap := func(err error) error {
		if err == nil {
			return nil
		}
		if exit, ok := err.(*Exit); ok { //nolint:errorlint // Only a bare Exit has a status of its own already.
			return exit
		}
		return &Exit{Status: status, Err: err}
	}
	args, run := cmd.Args, cmd.RunE
	cmd.Args = func(cmd *cobra.Command, given []string) error { return wrap(args(cmd, given)) }
	cmd.RunE = func(cmd *cobra.Command, given []string) error { return wrap(run(cmd, given)) }
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return wrap(err) })
}
