// Package version says which build of floodgate runs: to people, in the first line of a log, and as a metric.
package version
