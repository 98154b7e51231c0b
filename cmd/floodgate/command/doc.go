// Package command is what all subcommands have in common: the process that they run in, usage errors and exit codes, help, the
// environment variable of each flag, and the flags that any subcommand may have. It stands on cobra, which finds the subcommand,
// parses its flags, and completes command lines in shells.
//
// Results go to standard output and logs to standard error. Exit codes: 0 ok, 1 failed, 2 wrong usage.
package command
