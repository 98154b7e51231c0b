// Package peers contains the subjects that are measured beside the gate, with one interface for all. They are rival limiters,
// each of which keeps its callers as its documentation recommends, and flags: the maps that a developer would use for a gate
// that takes one afternoon.
//
// A limiter decides by itself; a gate applies decisions of others. So the two are not the same. But a request asks both the
// same question: may this caller pass now?
//
// Each rival needs a quota that it can handle. If that needs care, the comment on its constructor says which.
package peers
