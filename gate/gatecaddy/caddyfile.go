package gatecaddy

import (
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() { //nolint:gochecknoinits // Caddy finds its directives so
	httpcaddyfile.RegisterGlobalOption("floodgate", func(d *caddyfile.Dispenser, before any) (any, error) {
		a := new(App)
		if err := a.UnmarshalCaddyfile(d); err != nil {
			return nil, err
		}
		if before != nil {
			return nil, d.Err("got the global option floodgate twice, want one: a Caddy has one set of gates")
		}
		return httpcaddyfile.App{Name: "floodgate", Value: caddyconfig.JSON(a, nil)}, nil
	})
	httpcaddyfile.RegisterHandlerDirective("floodgate", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		handler := new(Handler)
		return handler, handler.UnmarshalCaddyfile(h.Dispenser)
	})
	httpcaddyfile.RegisterDirectiveOrder("floodgate", httpcaddyfile.Before, "redir")
}

// UnmarshalCaddyfile reads the global option.
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name
	o := options{
		texts: map[string]*string{
			"topic_prefix": &a.TopicPrefix, "partition_key_file": &a.PartitionKeyFile, "stale": &a.Stale,
			"tls_ca": &a.TLSCA, "tls_cert": &a.TLSCert, "tls_key": &a.TLSKey,
			"sasl": &a.SASL, "sasl_user": &a.SASLUser, "sasl_password_file": &a.SASLPasswordFile,
		},
		lists:   map[string]*[]string{"brokers": &a.Brokers, "hash_kinds": &a.HashKinds, "hash_secret_file": &a.HashSecretFiles},
		flags:   map[string]*bool{"tls": &a.TLS, "sasl_insecure": &a.SASLInsecure, "shadow": &a.Shadow, "responses": &a.Responses},
		numbers: map[string]*int{"ipv6_prefix": &a.IPv6Prefix},
		check: func(name string) error {
			switch name {
			case "stale":
				_, err := parseStale(a.Stale)
				return err
			case "brokers":
				for _, b := range a.Brokers {
					if err := checkBroker(b); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
	if err := o.read(d); err != nil {
		return err
	}
	if err := a.check(); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

// UnmarshalCaddyfile reads the directive.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name
	o := options{
		texts: map[string]*string{"resource": &h.Resource},
		lists: map[string]*[]string{"callers": &h.Callers, "reject_repeated": &h.RejectRepeated},
		flags: map[string]*bool{"no_record": &h.NoRecord},
		check: func(string) error {
			_, err := parseCallers(h.Callers)
			return err
		},
	}
	return o.read(d)
}

// options are what may stand in a block, by name, and where their values go.
type options struct {
	texts   map[string]*string
	lists   map[string]*[]string // may be given several times
	flags   map[string]*bool
	numbers map[string]*int
	check   func(name string) error // is called after each option, so that an error has its line
}

// read reads a block.
func (o *options) read(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		return d.Errf("got %q after floodgate, want a block or nothing", d.Val())
	}
	for d.NextBlock(0) {
		name := d.Val()
		if err := o.readOption(d, name); err != nil {
			return err
		}
		if err := o.check(name); err != nil {
			return d.WrapErr(err)
		}
	}
	return nil
}

func (o *options) readOption(d *caddyfile.Dispenser, name string) error {
	values := d.RemainingArgs()
	if flag, ok := o.flags[name]; ok {
		if len(values) > 0 {
			return d.Errf("%s: got %q, want nothing after it", name, values[0])
		}
		*flag = true
		return nil
	}
	if list, ok := o.lists[name]; ok {
		if len(values) == 0 {
			return d.Errf("%s: got no value, want one or more", name)
		}
		*list = append(*list, values...)
		return nil
	}
	text, isText := o.texts[name]
	number, isNumber := o.numbers[name]
	switch {
	case !isText && !isNumber:
		return d.Errf("got %q, which is no option of floodgate here", name)
	case len(values) != 1 || values[0] == "":
		return d.Errf("%s: got %q, want one value", name, values)
	case isText:
		*text = values[0]
		return nil
	}
	n, err := strconv.Atoi(values[0])
	if err != nil {
		return d.Errf("%s: got %q, want a number", name, values[0])
	}
	*number = n
	return nil
}
