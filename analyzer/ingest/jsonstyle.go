package ingest

// jsonStyles are the formats of one JSON object a line. They differ in what the fields are called.
func jsonStyles() []style {
	return []style{
		{name: "json", defaults: Mapping{Time: "time"}, make: newJSON},
		{
			// nginx has no JSON format of its own: these are its variables, as log_format … escape=json names them.
			name: "nginx", dash: true, make: newJSON,
			defaults: Mapping{
				Client:   Client{Address: "remote_addr|client_ip|clientip|remote_ip", Forwarded: "http_x_forwarded_for|x_forwarded_for"},
				Time:     "time_iso8601|time_local|msec|@timestamp|timestamp|time",
				Resource: "request_uri|uri|request|url|path", Status: "status|response", Cost: "body_bytes_sent|bytes_sent|bytes",
			},
		},
		{
			// Envoy's JSON is what its json_format says: these are the names of its documentation, and of Istio and Envoy Gateway.
			name: "envoy", dash: true, make: newJSON,
			defaults: Mapping{
				Client:   Client{Address: "downstream_remote_address|downstream_direct_remote_address", Forwarded: "x_forwarded_for|x-forwarded-for"},
				Time:     "start_time|timestamp",
				Resource: "x_envoy_original_path|x-envoy-origin-path|path", Status: "response_code|status", Cost: "bytes_sent",
			},
		},
		{
			// ClientHost is X-Forwarded-For where Traefik was sent one; ClientAddr is who sent it.
			name: "traefik", dash: true, make: newJSON,
			defaults: Mapping{
				Client:   Client{Address: "ClientAddr|ClientHost", Forwarded: "request_X-Forwarded-For|ClientHost"},
				Time:     "StartUTC|time",
				Resource: "RequestPath", Status: "DownstreamStatus", Cost: "DownstreamContentSize",
			},
		},
		{
			// client_ip is remote_ip unless Caddy was told which proxies to trust.
			name: "caddy", dash: true, make: newJSON,
			defaults: Mapping{
				Client:   Client{Address: "request.client_ip|request.remote_ip|request.remote_addr"},
				Time:     "ts",
				Resource: "request.uri", Status: "status", Cost: "size",
			},
		},
		{
			// The Elastic Common Schema, as Filebeat's modules write it.
			name: "ecs", make: newJSON,
			defaults: Mapping{
				Client:   Client{Address: "client.ip|source.ip|client.address|source.address"},
				Time:     "@timestamp",
				Resource: "url.path|url.original", Status: "http.response.status_code",
				Cost: "http.response.body.bytes|http.response.bytes",
			},
		},
	}
}
