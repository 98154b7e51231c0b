// Package gatetest is for the tests of servers that embed gates. It has a Set in which chosen callers are closed, and a
// Recorder that keeps what was recorded. Neither needs Kafka, and both run in testing/synctest bubbles.
package gatetest
