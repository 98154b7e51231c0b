// Package lab is the laboratory: tests that start real processes of floodgate, kill, pause and starve them, put them beside the servers
// and brokers of others, and measure them. They take half an hour, so nothing runs them but
//
//	go test -tags lab ./cmd/floodgate/lab     or .ci/run lab
//
// The program under test is built once, with the race detector if the tests have it.
package lab
