// Package ext stands in for the module of this name in Traefik's repository, which a build of Traefik from the module proxy
// does not have. Traefik leaves both types empty.
package ext

// HTTP is no field of the HTTP configuration.
type HTTP struct{}

// DeepCopyInto does nothing: there is nothing to copy.
func (*HTTP) DeepCopyInto(*HTTP) {}

// Router is no field of a router.
type Router struct{}

// DeepCopyInto does nothing: there is nothing to copy.
func (*Router) DeepCopyInto(*Router) {}
