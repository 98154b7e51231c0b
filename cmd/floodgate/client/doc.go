// Package client asks an analyzer's API, package analyzer/api, on behalf of the command line.
//
// A token leaves the process only over TLS, or to loopback, and only to the address that the person named: no redirect is
// followed. Errors of the API are *apiv1.Problem; Explain says one in words. Answers are bounded: a server that sends more is
// an error.
package client
