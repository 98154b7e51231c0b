package daemon

import (
	_ "embed"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// hint is what to write into the configuration of a proxy.
type hint struct {
	name   string   // of the proxy
	finds  []string // programs, or files, that are there where the proxy is installed
	advice string   // ADDRESS stands for that of serve
}

// nginxConf is what nginx needs to ask at nginxAddress. Packages have it as the file packagedNginx.
//
//go:embed nginx.conf
var nginxConf string

const (
	nginxAddress  = "127.0.0.1:9091"
	packagedNginx = "/usr/share/floodgate/nginx.conf"
)

// nginxLines returns what to write for nginx: a line that includes the file of the package, if that is there and asks at the same address,
// or what that file says.
func nginxLines(address, packaged string) string {
	if strings.HasPrefix(address, "/") {
		address = "unix:" + address + ":" // as nginx writes a socket
	}
	text := strings.ReplaceAll(nginxConf, nginxAddress, address)
	if there, err := os.ReadFile(packaged); err == nil && string(there) == text {
		text = "include " + packaged + ";\n"
	} else if _, lines, found := strings.Cut(text, "\nauth_request "); found {
		text = "auth_request " + lines // without the comment
	}
	return indented(text)
}

// indented returns lines with four spaces before each.
func indented(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n    ") + "\n"
}

// proxies returns the hints, those for proxies of this host first.
func proxies(address, packaged string) []hint {
	list := []hint{
		{"nginx", []string{"nginx", "/usr/sbin/nginx", "/etc/nginx"}, "in the server block, then nginx -s reload:\n\n" + nginxLines(address, packaged)},
		{"Caddy", []string{"caddy", "/etc/caddy"}, `in the site, then caddy reload (deploy/caddy/Caddyfile also lets requests pass while serve is away):

    forward_auth ADDRESS {
        uri /auth
    }
`},
		{"Traefik", []string{"traefik", "/etc/traefik"}, `as a middleware of the routers (deploy/traefik also lets requests pass while serve is away):

    http:
      middlewares:
        floodgate:
          forwardAuth: {address: "http://ADDRESS/auth"}
`},
		{"Envoy", []string{"envoy", "/etc/envoy"}, `as an HTTP filter, envoy.filters.http.ext_authz with http_service at ADDRESS and path_prefix /auth, failure_mode_allow: true
`},
	}
	slices.SortStableFunc(list, func(a, b hint) int {
		switch {
		case a.here() == b.here():
			return 0
		case a.here():
			return -1
		}
		return 1
	})
	return list
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

// hints says how the proxies of this host ask serve; without a proxy here, how any of them does.
func hints(address string) string {
	var b strings.Builder
	all := proxies(address, packagedNginx)
	found := slices.ContainsFunc(all, func(h hint) bool { return h.here() })
	for _, h := range all {
		if found && !h.here() {
			continue
		}
		b.WriteString("To let " + h.name + " ask, " + strings.ReplaceAll(h.advice, "ADDRESS", address) + "\n")
	}
	return b.String()
}
