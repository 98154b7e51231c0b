// Package remote has the subcommands that ask the API of a running analyzer, or write a control record by it. Decisions and rules can also
// be read without one: decisions from Kafka, rules from files.
package remote
