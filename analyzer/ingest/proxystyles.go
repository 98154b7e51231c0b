package ingest

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
				Client: Client{Address: "host"}, Time: "time", Layout: TimeCLF, Resource: "target", Method: "method", Status: "status", Cost: "bytes",
			},
		},
		{
			name: "haproxy", rank: 22, dash: true, make: newText(haproxyHTTP, quotesAsHex, "request"),
			defaults: Mapping{
				Client: Client{Address: "client"}, Time: "accept_date", Layout: TimeNoZone, Resource: "target", Method: "method", Status: "status", Cost: "bytes_read",
			},
		},
		{
			name: "haproxy_tcp", rank: 23, dash: true, make: newText(haproxyTCP, quotesAsHex, ""),
			defaults: Mapping{
				Client: Client{Address: "client"}, Time: "accept_date", Layout: TimeNoZone, Resource: "frontend", Cost: "bytes_read",
			},
		},
		{
			name: "istio_text", rank: 21, dash: true, make: newText(istioText, quotesUnescaped, "request"),
			defaults: Mapping{
				Client: Client{Address: "downstream_remote_address", Forwarded: "x_forwarded_for"}, Time: "start_time", Layout: TimeRFC3339,
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
				Client: Client{Address: "remote_ip"}, Time: "time", Layout: TimeCLF, Resource: "target", Method: "method", Status: "http_status", Cost: "bytes_sent",
			},
		},
		{
			name: "elb", rank: 32, dash: true,
			defaults: Mapping{
				Client: Client{Address: "client:port"}, Time: "time", Layout: TimeRFC3339, Resource: "target", Method: "method",
				Status: "elb_status_code", Cost: "sent_bytes",
			},
			make: newColumns(columns{request: 11, escapes: true}, "time", "elb", "client:port", "backend:port",
				"request_processing_time", "backend_processing_time", "response_processing_time", "elb_status_code",
				"backend_status_code", "received_bytes", "sent_bytes", "request", "user_agent", "ssl_cipher", "ssl_protocol"),
		},
		{
			name: "squid", rank: 33, dash: true, make: newText(squidText, quotesAsHex, ""),
			defaults: Mapping{
				Client: Client{Address: "client"}, Time: "time", Layout: TimeUnix, Resource: "url", Method: "method", Status: "status", Cost: "bytes",
			},
		},
		{
			name: "w3c", rank: 35, header: true, dash: true, make: newW3C,
			defaults: Mapping{
				Client: Client{Address: "c-ip", Forwarded: "x-forwarded-for"}, Time: fieldDateTime, Layout: TimeNoZone,
				Resource: "cs-uri-stem|cs-uri", Method: "cs-method", Status: "sc-status", Cost: "sc-bytes",
			},
		},
		// No rank: w3c reads its lines too.
		{
			name: "cloudfront", header: true, dash: true, make: newW3C,
			defaults: Mapping{
				Client: Client{Address: "c-ip", Forwarded: "x-forwarded-for"}, Time: fieldDateTime, Layout: TimeNoZone,
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
				Client: Client{Address: "ClientIP"}, Time: "EdgeStartTimestamp|EdgeEndTimestamp",
				Resource: "ClientRequestURI|ClientRequestPath", Method: "ClientRequestMethod", Status: "EdgeResponseStatus", Cost: "EdgeResponseBytes",
			},
		},
		{
			// The log_format that Matomo's log importer asks for.
			name: "matomo", rank: 47, json: true, dash: true, make: newJSON,
			defaults: Mapping{
				Client: Client{Address: "ip"}, Time: "date", Resource: "path", Method: "method|request_method", Status: "status", Cost: "length",
			},
		},
	}
}
