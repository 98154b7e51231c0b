// Package terminal prints what subcommands show to people: tables whose cells are safe to print, whatever clients wrote. It
// also detects whether the output is a terminal that can show colours and progress.
package terminal
