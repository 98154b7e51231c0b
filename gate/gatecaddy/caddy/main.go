// Command caddy is Caddy with all its own modules and with floodgate. Modules of others are one import each.
//
//	go build -o /usr/local/bin/caddy ./caddy
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/509da70d/floodgate/gate/gatecaddy"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

func main() { caddycmd.Main() }
