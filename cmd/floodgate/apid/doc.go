// Package apid gives the API of an analyzer what it answers from: the analyzer of this process, the decisions that gates hold (package
// gate/board), and the control topic.
package apid
