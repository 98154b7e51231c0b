package ingest

import "slices"

// style is everything that the package knows of a format. To add a format, add one entry to styles, its name to the enum in
// schemas/mapping.schema.json, and NAME.log and NAME.want to testdata/formats.
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
	return []style{
		{name: "combined", rank: 10, defaults: clf, dash: true, native: true, make: newCLF(combinedFields, false)},
		// No rank: combined reads its lines too.
		{name: "common", defaults: clf, dash: true, native: true, make: newCLF(commonFields, false)},
		{name: "vhost_combined", rank: 11, defaults: clf, dash: true, native: true, make: newCLF(combinedFields, true)},
		{
			name: "envoy_text", rank: 20, dash: true,
			defaults: Mapping{
				Client: Client{Forwarded: "x_forwarded_for"}, Time: "start_time", Layout: TimeRFC3339, Resource: "target", Method: "method",
				Status: "response_code", Cost: "bytes_sent",
			},
			make: newColumns(columns{request: 1, quotes: 12}, "start_time", "request", "response_code", "response_flags",
				"bytes_received", "bytes_sent", "duration", "upstream_service_time", "x_forwarded_for", "user_agent",
				"request_id", "authority", "upstream_host"),
		},
		{
			name: "alb", rank: 30, dash: true,
			defaults: Mapping{
				Client: Client{Address: "client:port"}, Time: "time", Layout: TimeRFC3339, Resource: "target", Method: "method",
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
				Resource: "request_uri|uri|request|url|path", Method: "request_method|method", Status: "status|response", Cost: "body_bytes_sent|bytes_sent|bytes",
			},
		},
		{
			// json_format of Envoy chooses the names. These are the names in its documentation, and those of Istio and Envoy Gateway.
			name: "envoy", rank: 60, json: true, dash: true, make: newJSON,
			defaults: Mapping{
				Client:   Client{Address: "downstream_remote_address|downstream_direct_remote_address", Forwarded: "x_forwarded_for|x-forwarded-for"},
				Time:     "start_time|timestamp",
				Resource: "x_envoy_original_path|x-envoy-origin-path|path", Method: "method", Status: "response_code|status", Cost: "bytes_sent",
			},
		},
		{
			// ClientHost is X-Forwarded-For, if Traefik received one. ClientAddr is the other end of the connection.
			name: "traefik", rank: 50, json: true, dash: true, make: newJSON,
			defaults: Mapping{
				Client:   Client{Address: "ClientAddr|ClientHost", Forwarded: "request_X-Forwarded-For|ClientHost"},
				Time:     "StartUTC|time",
				Resource: "RequestPath", Method: "RequestMethod", Status: "DownstreamStatus", Cost: "DownstreamContentSize",
			},
		},
		{
			// client_ip is remote_ip, unless Caddy is configured to trust proxies.
			name: "caddy", rank: 40, json: true, dash: true, make: newJSON,
			defaults: Mapping{
				Client:   Client{Address: "request.client_ip|request.remote_ip|request.remote_addr"},
				Time:     "ts",
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
