// Command floodgate is the whole of floodgate in one binary: the analyzer as a daemon, and the tools around it. Each
// subcommand is a file of its own named after it; flags exist only here.
//
// Results go to standard output and logs to standard error. Exit codes: 0 ok, 1 failed, 2 wrong usage.
package main
