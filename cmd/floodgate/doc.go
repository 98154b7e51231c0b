// Command floodgate is the whole of floodgate in one binary: the analyzer as a daemon, and the tools around it. Each
// subcommand is a file of its own named after it; flags exist only here.
//
//	demo                                the parts of the demo, in one process
//	httpd                               the HTTP server of analyze, ingest, notify and sidecar
//	terminal                            tables and progress for people
//	daemon.go                           what analyze, ingest and notify have in common
//	kafka.go, partitionkey.go, ids.go,
//	formatflags.go, flags.go            flags that several subcommands share
//	help.go                             what --help prints, and guesses at misspelt names
//
// Results go to standard output and logs to standard error. Exit codes: 0 ok, 1 failed, 2 wrong usage.
//
// # Tests
//
// Tests of the command line have the names of the files that they test. The end-to-end laboratory is in the files e2e_*:
// there, real processes under load are killed, paused, overloaded and sent false input, and an oracle, which knows what was
// sent, compares the counts. The long tests need the environment variable FLOODGATE_LONG=1, which CI sets.
package main
