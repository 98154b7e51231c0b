package daemon

import (
	"os"
	"os/exec"
	"slices"
	"strings"
)

// hint is what to write into the configuration of a proxy.
type hint struct {
	name   string   // of the proxy
	finds  []string // programs, or files, that are there where the proxy is installed
	socket string   // how its configuration names the Unix socket at PATH; empty: it does not
	advice string   // ADDRESS stands for that of serve
}

// proxies returns the hints for all proxies.
func proxies() []hint {
	return []hint{
		{"nginx", []string{"nginx", "/usr/sbin/nginx", "/etc/nginx"}, "unix:PATH:", `in the server block, then nginx -s reload:

    auth_request /_floodgate;
    error_page 403 = @floodgate_closed;
    auth_request_set $floodgate_retry $upstream_http_retry_after;
    location @floodgate_closed {
        internal;
        if ($floodgate_retry = "") { return 403; } # it is not floodgate's
        add_header Retry-After $floodgate_retry always;
        return 429;
    }
    location = /_floodgate {
        internal;
        auth_request off;
        proxy_pass http://ADDRESS/auth_request;
        proxy_pass_request_body off;
        proxy_set_header Content-Length "";
        proxy_set_header X-Forwarded-For $remote_addr;
        proxy_connect_timeout 50ms;
        proxy_read_timeout 50ms;
        proxy_intercept_errors on;
        error_page 401 500 502 503 504 = @floodgate_away;
    }
    location @floodgate_away { internal; return 204; }
`},
		{"Caddy", []string{"caddy", "/etc/caddy"}, "unix/PATH", `in the site, then caddy reload (deploy/caddy/Caddyfile also lets requests pass while serve is away):

    forward_auth ADDRESS {
        uri /auth
    }
`},
		{"Traefik", []string{"traefik", "/etc/traefik"}, "", `as a middleware of the routers (deploy/traefik also lets requests pass while serve is away):

    http:
      middlewares:
        floodgate:
          forwardAuth: {address: "http://ADDRESS/auth"}
`},
		{"Envoy", []string{"envoy", "/etc/envoy"}, "", `as an HTTP filter, envoy.filters.http.ext_authz with http_service at ADDRESS and path_prefix /auth, failure_mode_allow: true
`},
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
		b.WriteString("To let " + h.name + " ask, " + strings.ReplaceAll(h.advice, "ADDRESS", at) + "\n")
	}
	return b.String()
}
