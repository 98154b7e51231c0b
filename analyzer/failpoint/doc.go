// Package failpoint names the places in an owner's life where a crash would be worst, so that tests can crash there.
//
// In the program that people run, Here is empty and compiles to nothing. Built with -tags failpoint, the program reads a
// Plan from the environment, and kills itself, as kill -9 would, when it comes to the planned Point for the n-th time:
//
//	go build -tags failpoint -o floodgate ./cmd/floodgate
//	FLOODGATE_FAILPOINT=commit-ends:3 ./floodgate analyze …
//
// Before that it writes the Point to stderr, so that a test can check that the process died at this Point.
package failpoint
