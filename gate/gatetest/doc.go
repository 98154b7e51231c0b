// Package gatetest is for the tests of servers that embed gates: a Set in which chosen callers are closed, and a
// Recorder that keeps what it is told. Neither needs Kafka, and both run in testing/synctest bubbles.
package gatetest
