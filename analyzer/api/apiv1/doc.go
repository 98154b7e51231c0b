// Package apiv1 is the JSON of floodgate's API, version 1: what the server of package analyzer/api writes and the command line
// reads. schemas/openapi.yaml describes it. Times are RFC 3339 in UTC, durations are whole nanoseconds where a field's name
// ends in _ns, and fingerprints and ids of records are hexadecimal.
package apiv1
