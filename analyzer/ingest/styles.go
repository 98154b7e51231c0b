package ingest

import (
	"slices"
	"strings"
)

// style is everything that the package knows of a format. To add a format, add one entry to styles, and NAME.log to testdata/formats.
// go test ./analyzer/ingest -update writes NAME.want beside it, and README.md.
type style struct {
	name     string
	rank     int  // auto tries formats by rising rank: the lower, the fewer lines a format accepts; 0 is never tried
	json     bool // a line is a JSON object
	header   bool // the first line names the columns, unless the mapping does
	dash     bool // a value of "-" is none
	native   bool // the decoder reads time, status and cost
	defaults Mapping
	make     func(m Mapping) (fieldNames, func() decoder, error)
}

// headed reports whether the first line of a log is needed to read the others.
func (s style) headed(m Mapping) bool { return s.header && len(m.Columns) == 0 }

// Prefixes of the formats that are compiled from the text of a configuration.
const (
	prefixNginx  = "nginx:"
	prefixApache = "apache:"
)

// styleOf returns the style of a format, and whether there is one. The format auto has none.
func styleOf(name string) (style, bool) {
	for _, s := range styles() {
		if s.name == name {
			return s, true
		}
	}
	return compiled(name)
}

// KnownFormat reports whether NewFormat knows a format of that name, or would compile it: see Formats.
func KnownFormat(name string) bool {
	_, found := styleOf(name)
	return found || name == FormatAuto
}

// styles returns the formats, in the order in which help lists them.
func styles() []style {
	return slices.Concat(textStyles(), proxyStyles(), accessStyles(), jsonStyles(), cloudStyles(), namedStyles())
}

// textStyles are the formats whose fields stand in a fixed order.
func textStyles() []style {
	clf := Mapping{Client: Client{Address: "ip"}, Resource: "target", Method: "method"}
	combined := clf
	combined.Client.Forwarded = "forwarded"
	return []style{
		{name: "combined", rank: 10, defaults: combined, dash: true, native: true, make: newCLF(combinedFields, false)},
		// No rank: combined reads its lines too.
		{name: "common", defaults: clf, dash: true, native: true, make: newCLF(commonFields, false)},
		{name: "vhost_combined", rank: 11, defaults: combined, dash: true, native: true, make: newCLF(combinedFields, true)},
		{
			name: "envoy_text", rank: 20, dash: true,
			defaults: Mapping{
				Client: Client{Forwarded: "x_forwarded_for"}, Time: "start_time", Layout: TimeRFC3339, TimeAt: TimeAtStart, Resource: "target", Method: "method",
				Status: "response_code", Cost: "bytes_sent",
			},
			make: newColumns(columns{request: 1, quotes: 12}, "start_time", "request", "response_code", "response_flags",
				"bytes_received", "bytes_sent", "duration", "upstream_service_time", "x_forwarded_for", "user_agent",
				"request_id", "authority", "upstream_host"),
		},
		{
			name: "alb", rank: 30, dash: true,
			defaults: Mapping{
				Client: Client{Address: "client:port"}, Time: "time", Layout: TimeRFC3339, TimeAt: TimeAtEnd, Resource: "target", Method: "method",
				Status: "elb_status_code", Cost: "sent_bytes",
			},
			make: newColumns(columns{request: 12, escapes: true}, "type", "time", "elb", "client:port", "target:port",
				"request_processing_time", "target_processing_time", "response_processing_time", "elb_status_code",
				"target_status_code", "received_bytes", "sent_bytes", "request", "user_agent", "ssl_cipher", "ssl_protocol",
				"target_group_arn", "trace_id", "domain_name", "chosen_cert_arn", "matched_rule_priority",
				"request_creation_time", "actions_executed", "redirect_url", "error_reason", "target:port_list",
				"target_status_code_list", "classification", "classification_reason", "conn_trace_id"),
		},
	}
}

// jsonStyles are the formats of one JSON object a line. They differ in the names of the fields.
func jsonStyles() []style {
	return []style{
		{name: "json", rank: 90, json: true, defaults: Mapping{Time: "time", Method: "method|request_method"}, make: newJSON},
		{
			// nginx has no JSON format of its own: these are its variables, as log_format … escape=json names them.
			name: "nginx", rank: 80, json: true, dash: true, make: newJSON,
			defaults: Mapping{
				Client:   Client{Address: "remote_addr|client_ip|clientip|remote_ip", Forwarded: "http_x_forwarded_for|x_forwarded_for"},
				Time:     "time_iso8601|time_local|msec|@timestamp|timestamp|time",
				TimeAt:   TimeAtEnd,
				Resource: "request_uri|uri|request|url|path", Method: "request_method|method", Status: "status|response", Cost: "body_bytes_sent|bytes_sent|bytes",
			},
		},
		{
			// json_format of Envoy chooses the names. These are the names in its documentation, and those of Istio and Envoy Gateway.
			name: "envoy", rank: 60, json: true, dash: true, make: newJSON,
			defaults: Mapping{
				Client:   Client{Address: "downstream_remote_address|downstream_direct_remote_address", Forwarded: "x_forwarded_for|x-forwarded-for"},
				Time:     "start_time|timestamp",
				TimeAt:   TimeAtStart,
				Resource: "x_envoy_original_path|x-envoy-origin-path|path", Method: "method", Status: "response_code|status", Cost: "bytes_sent",
			},
		},
		{
			// ClientHost is X-Forwarded-For, if Traefik received one. ClientAddr is the other end of the connection.
			name: "traefik", rank: 50, json: true, dash: true, make: newJSON,
			defaults: Mapping{
				Client:   Client{Address: "ClientAddr|ClientHost", Forwarded: "request_X-Forwarded-For|ClientHost"},
				Time:     "StartUTC|time",
				TimeAt:   TimeAtStart,
				Resource: "RequestPath", Method: "RequestMethod", Status: "DownstreamStatus", Cost: "DownstreamContentSize",
			},
		},
		{
			// client_ip is remote_ip, unless Caddy is configured to trust proxies.
			name: "caddy", rank: 40, json: true, dash: true, make: newJSON,
			defaults: Mapping{
				Client:   Client{Address: "request.client_ip|request.remote_ip|request.remote_addr"},
				Time:     "ts",
				TimeAt:   TimeAtEnd,
				Resource: "request.uri", Method: "request.method", Status: "status", Cost: "size",
			},
		},
		{
			// The Elastic Common Schema, as Filebeat's modules write it.
			name: "ecs", rank: 70, json: true, make: newJSON,
			defaults: Mapping{
				Client:   Client{Address: "client.ip|source.ip|client.address|source.address"},
				Time:     "@timestamp",
				Resource: "url.path|url.original", Method: "http.request.method", Status: "http.response.status_code",
				Cost: "http.response.body.bytes|http.response.bytes",
			},
		},
	}
}

// namedStyles are the other formats whose logs name their fields, in each line or in the first.
func namedStyles() []style {
	usual := Mapping{
		Client: Client{
			Address:   "remote_addr|client_ip|remote_ip|ip|client|remote",
			Forwarded: "x_forwarded_for|http_x_forwarded_for|forwarded_for|fwd",
		},
		Time:     "time|ts|timestamp|t|@timestamp",
		Resource: "path|uri|request_uri|url|request", Method: "method|request_method", Status: "status|status_code|code", Cost: "bytes|bytes_sent|size|body_bytes_sent",
	}
	return []style{
		{name: "logfmt", rank: 100, dash: true, defaults: usual, make: newLogfmt},
		{
			name: "ltsv", rank: 95, dash: true, make: newLTSV,
			defaults: Mapping{
				Client:   Client{Address: "host|remote_addr|remotehost|ip|client", Forwarded: "forwardedfor|xff|x_forwarded_for"},
				Time:     "time|time_local|time_iso8601|msec",
				Resource: "req|request|uri|path|request_uri", Method: "method", Status: "status", Cost: "size|body_bytes_sent|bytes",
			},
		},
		{name: "csv", header: true, dash: true, defaults: usual, make: newSeparated(',')},
		{name: "tsv", header: true, dash: true, defaults: usual, make: newSeparated('\t')},
	}
}

// istioText is the default text format of Istio.
const istioText = `[{start_time:stamp}] "{request:free}" {response_code:number} {response_flags} {response_code_details} {connection_termination_details} ` +
	`"{upstream_transport_failure_reason:free}" {bytes_received:number} {bytes_sent:number} {duration:number} {upstream_service_time:number} ` +
	`"{x_forwarded_for:free}" "{user_agent:free}" "{request_id:free}" "{authority:free}" "{upstream_host:free}" {upstream_cluster} ` +
	`{upstream_local_address} {downstream_local_address} {downstream_remote_address} {requested_server_name:free}`

// haproxyHTTP is what option httplog writes, and haproxyTCP what option tcplog does. Captured cookies and headers are what clients
// sent; they stand behind everything that is read.
const (
	haproxyHTTP = `{client:addrport} [{accept_date:stamp}] {frontend} {backend:name}/{server} {tr:name}/{tw:name}/{tc:name}/{tresp:name}/{ta} ` +
		`{status:number} {bytes_read:number} {captured:free}"{request:free}"`
	haproxyTCP = `{client:addrport} [{accept_date:stamp}] {frontend} {backend:name}/{server} {tw:name}/{tc:name}/{tt} ` +
		`{bytes_read:number} {termination_state} {actconn:name}/{feconn:name}/{beconn:name}/{srv_conn:name}/{retries} {srv_queue:name}/{backend_queue}`
)

// s3Text is the server access log of Amazon S3.
const s3Text = `{bucket_owner} {bucket} [{time:clf}] {remote_ip:addr} {requester} {request_id} {operation} {key:free}"{request_uri:free}" ` +
	`{http_status:number} {error_code} {bytes_sent:number} {object_size:number} {total_time:number} {turn_around_time:number} "{referer:free}" "{user_agent:free}"`

// squidText is the native format of Squid.
const squidText = `{time:number} {elapsed:padded} {client:addr} {code:name}/{status:number} {bytes:number} {method} {url} {user_and_peer:free}`

// lighttpdText is the default format of lighttpd. Its second word is the host that the client asked for.
const lighttpdText = `{host:addr} {vhost:free} {user:free} [{time:clf}] "{request:free}" {status:number} {bytes:number} "{referer:free}" "{user_agent:free}"`

// proxyStyles are the formats of proxies and load balancers whose fields stand in a fixed order.
func proxyStyles() []style {
	return []style{
		{
			// No rank: a line of another format that begins with the host looks the same.
			name: "lighttpd", dash: true, make: newText(lighttpdText, quotesEscaped, "request"),
			defaults: Mapping{
				Client: Client{Address: "host"}, Time: "time", Layout: TimeCLF, TimeAt: TimeAtEnd, Resource: "target", Method: "method", Status: "status", Cost: "bytes",
			},
		},
		{
			name: "haproxy", rank: 22, dash: true, make: newText(haproxyHTTP, quotesAsHex, "request"),
			defaults: Mapping{
				Client: Client{Address: "client"}, Time: "accept_date", Layout: TimeNoZone, TimeAt: TimeAtStart, Resource: "target", Method: "method", Status: "status", Cost: "bytes_read",
			},
		},
		{
			name: "haproxy_tcp", rank: 23, dash: true, make: newText(haproxyTCP, quotesAsHex, ""),
			defaults: Mapping{
				Client: Client{Address: "client"}, Time: "accept_date", Layout: TimeNoZone, TimeAt: TimeAtStart, Resource: "frontend", Cost: "bytes_read",
			},
		},
		{
			name: "istio_text", rank: 21, dash: true, make: newText(istioText, quotesUnescaped, "request"),
			defaults: Mapping{
				Client: Client{Address: "downstream_remote_address", Forwarded: "x_forwarded_for"}, Time: "start_time", Layout: TimeRFC3339, TimeAt: TimeAtStart,
				Resource: "target", Method: "method", Status: "response_code", Cost: "bytes_sent",
			},
		},
	}
}

// accessStyles are the formats of storage, caches and other servers.
func accessStyles() []style {
	return []style{
		{
			name: "s3", rank: 31, dash: true, make: newText(s3Text, quotesAsHex, "request_uri"),
			defaults: Mapping{
				Client: Client{Address: "remote_ip"}, Time: "time", Layout: TimeCLF, TimeAt: TimeAtStart, Resource: "target", Method: "method", Status: "http_status", Cost: "bytes_sent",
			},
		},
		{
			name: "elb", rank: 32, dash: true,
			defaults: Mapping{
				Client: Client{Address: "client:port"}, Time: "time", Layout: TimeRFC3339, TimeAt: TimeAtStart, Resource: "target", Method: "method",
				Status: "elb_status_code", Cost: "sent_bytes",
			},
			make: newColumns(columns{request: 11, escapes: true}, "time", "elb", "client:port", "backend:port",
				"request_processing_time", "backend_processing_time", "response_processing_time", "elb_status_code",
				"backend_status_code", "received_bytes", "sent_bytes", "request", "user_agent", "ssl_cipher", "ssl_protocol"),
		},
		{
			name: "squid", rank: 33, dash: true, make: newText(squidText, quotesAsHex, ""),
			defaults: Mapping{
				Client: Client{Address: "client"}, Time: "time", Layout: TimeUnix, TimeAt: TimeAtEnd, Resource: "url", Method: "method", Status: "status", Cost: "bytes",
			},
		},
		{
			name: "w3c", rank: 35, header: true, dash: true, make: newW3C,
			defaults: Mapping{
				Client: Client{Address: "c-ip", Forwarded: "x-forwarded-for"}, Time: fieldDateTime, Layout: TimeNoZone, TimeAt: TimeAtEnd,
				Resource: "cs-uri-stem|cs-uri", Method: "cs-method", Status: "sc-status", Cost: "sc-bytes",
			},
		},
		// No rank: w3c reads its lines too.
		{
			name: "cloudfront", header: true, dash: true, make: newW3C,
			defaults: Mapping{
				Client: Client{Address: "c-ip", Forwarded: "x-forwarded-for"}, Time: fieldDateTime, Layout: TimeNoZone, TimeAt: TimeAtEnd,
				Resource: "cs-uri-stem", Method: "cs-method", Status: "sc-status", Cost: "sc-bytes",
			},
		},
	}
}

// cloudStyles are formats of one JSON object a line that services write.
func cloudStyles() []style {
	return []style{
		{
			name: "gcp", rank: 45, json: true, dash: true, make: newJSON,
			defaults: Mapping{
				Client: Client{Address: "httpRequest.remoteIp"}, Time: "timestamp|receiveTimestamp",
				Resource: "httpRequest.requestUrl", Method: "httpRequest.requestMethod", Status: "httpRequest.status", Cost: "httpRequest.responseSize",
			},
		},
		{
			name: "cloudflare", rank: 46, json: true, dash: true, make: newJSON,
			defaults: Mapping{
				Client: Client{Address: "ClientIP"}, Time: "EdgeStartTimestamp|EdgeEndTimestamp", TimeAt: TimeAtStart,
				Resource: "ClientRequestURI|ClientRequestPath", Method: "ClientRequestMethod", Status: "EdgeResponseStatus", Cost: "EdgeResponseBytes",
			},
		},
		{
			// The log_format that Matomo's log importer asks for.
			name: "matomo", rank: 47, json: true, dash: true, make: newJSON,
			defaults: Mapping{
				Client: Client{Address: "ip"}, Time: "date", TimeAt: TimeAtEnd, Resource: "path", Method: "method|request_method", Status: "status", Cost: "length",
			},
		},
	}
}

// compiled returns the style of a format whose name is a prefix and the text of a configuration, and whether it has such a name.
func compiled(format string) (s style, found bool) {
	var err error
	if text, nginx := strings.CutPrefix(format, prefixNginx); nginx {
		s, err = nginxStyle(text)
	} else if text, apache := strings.CutPrefix(format, prefixApache); apache {
		s, err = apacheStyle(text)
	} else {
		return style{}, false
	}
	if err != nil {
		s.make = func(Mapping) (fieldNames, func() decoder, error) { return nil, nil, err }
	}
	return s, true
}
