package daemon

import (
	_ "embed" // nginx.conf
	"os"
	"os/exec"
	"slices"
	"strings"
)

// hint is what to write into the configuration of a proxy.
type hint struct {
	name   string              // of the proxy
	finds  []string            // programs, or files, that are there where the proxy is installed
	socket string              // how its configuration names the Unix socket at PATH; empty: it does not
	advice func(string) string // for an address of serve
}

// nginxConf is what nginx needs to ask at defaultListen. Packages have it as the file packagedNginx.
//
//go:embed nginx.conf
var nginxConf string

const packagedNginx = "/usr/share/floodgate/nginx.conf"

// nginxLines returns what to write for nginx: a line that includes the file of the package, if that is there and asks at the same address,
// or what that file says.
func nginxLines(address, packaged string) string {
	text := strings.ReplaceAll(nginxConf, defaultListen, address)
	if there, err := os.ReadFile(packaged); err == nil && string(there) == text {
		text = "include " + packaged + ";\n"
	} else if _, lines, found := strings.Cut(text, "\nauth_request "); found {
		text = "auth_request " + lines // without the comment
	}
	return "    " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n    ") + "\n"
}

// with returns advice in which ADDRESS stands for that of serve.
func with(text string) func(string) string {
	return func(address string) string { return strings.ReplaceAll(text, "ADDRESS", address) }
}

// proxies returns the hints for all proxies.
func proxies() []hint {
	return []hint{
		{"nginx", []string{"nginx", "/usr/sbin/nginx", "/etc/nginx"}, "unix:PATH:", func(address string) string {
			return "in the server block, then nginx -s reload:\n\n" + nginxLines(address, packagedNginx)
		}},
		{"Caddy", []string{"caddy", "/etc/caddy"}, "unix/PATH", with(`in the site, then caddy reload (deploy/caddy/Caddyfile also lets requests pass while serve is away):

    forward_auth ADDRESS {
        uri /auth
    }
`)},
		{"Traefik", []string{"traefik", "/etc/traefik"}, "", with(`as a middleware of the routers (deploy/traefik also lets requests pass while serve is away):

    http:
      middlewares:
        floodgate:
          forwardAuth: {address: "http://ADDRESS/auth"}
`)},
		{"Envoy", []string{"envoy", "/etc/envoy"}, "", with(`as an HTTP filter, envoy.filters.http.ext_authz with http_service at ADDRESS and path_prefix /auth, failure_mode_allow: true
`)},
	}
}

// here reports whether the proxy is installed on this host.
func (h *hint) here() bool {
	return slices.ContainsFunc(h.finds, func(name string) bool {
		if strings.HasPrefix(name, "/") {
			_, err := os.Stat(name)
			return err == nil
		}
		_, err := exec.LookPath(name)
		return err == nil
	})
}

// hints says how the proxies of this host ask serve at host:port, or at unix:PATH; without a proxy here, how any of them does.
func hints(address string) string {
	list := proxies()
	if here := slices.DeleteFunc(proxies(), func(h hint) bool { return !h.here() }); len(here) > 0 {
		list = here
	}
	var b strings.Builder
	for _, h := range list {
		at := address
		if path, ok := strings.CutPrefix(address, "unix:"); ok {
			if h.socket == "" {
				continue
			}
			at = strings.ReplaceAll(h.socket, "PATH", path)
		}
		b.WriteString("To let " + h.name + " ask, " + h.advice(at) + "\n")
	}
	return b.String()
}
