// Package processtest runs floodgate for tests: as a process of its own that can be killed, or as a session inside the test.
//
//	Program     a process: Start, WaitFor what it prints, Kill, Stop
//	Session     a subcommand in a goroutine of the test: Begin, WaitFor, End
//	Deployment  a broker and an analyzer, each a Program
//	Host        a machine with a log, and serve, a Program that reads it
//	Sidecar     a Deployment with a sidecar, which closes addresses at the tenth request
//
// Eventually, Get and MetricSum ask what runs until it answers as it should.
package processtest
