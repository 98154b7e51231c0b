// Command floodgate is the whole of floodgate in one binary. main.go is the table of its subcommands, which live in three rooms:
//
//	daemon     run until stopped: analyze, ingest, notify, sidecar, broker, demo
//	remote     ask and direct a running analyzer: status, explain, close, rules, …
//	offline    read logs, topics and data: replay, simulate, audit, store, topics, …
//
// All stand on package command (help, errors, exit codes, the environment) and package option (flags that several share).
//
// # Tests
//
// The tests here run command lines as a user does. Units are tested in the rooms, and real processes that are killed, paused and overloaded
// in package lab.
package main
