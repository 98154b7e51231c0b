// Package offline has the subcommands that need no running analyzer: they read logs, topics, and the data of an analyzer that is stopped.
package offline
