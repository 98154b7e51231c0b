// Package secure turns the paths and names that a user gives into the TLS and SASL settings of a Kafka client:
// kafkaio.Config and kafkalink.Config both take what Options.Load returns.
//
// Secrets live in files, never in flags or the environment, and are read again for every connection: a certificate or a
// password that is replaced is in use from the next connection on, without a restart.
package secure
