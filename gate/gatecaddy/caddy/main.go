// Command caddy is Caddy with floodgate in it. Copy it to add modules of others, as https://caddyserver.com/docs/build says.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/509da70d/floodgate/gate/gatecaddy"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

func main() { caddycmd.Main() }
