// Package option is the flags that several subcommands share: how to reach Kafka and which topics there are, the partition key, the
// ids of callers, the format of a log, and what may be predicted. Each is a struct with Add, which adds its flags to a subcommand, and a
// method that checks or reads what they name.
package option
