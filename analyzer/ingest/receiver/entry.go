package receiver

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// isEnd reports whether an entry is the one that each request or connection has once, at its end. Old versions of Envoy name no type.
func isEnd(c *datav3.AccessLogCommon) bool {
	switch c.GetAccessLogType() {
	case datav3.AccessLogType_NotSet, datav3.AccessLogType_DownstreamEnd, datav3.AccessLogType_TcpConnectionEnd, datav3.AccessLogType_UdpSessionEnd:
		return true
	default:
		return false
	}
}

// isStart reports whether an entry is the one that Envoy logs when a request or connection begins, if it is told to.
func isStart(c *datav3.AccessLogCommon) bool {
	t := c.GetAccessLogType()
	return t == datav3.AccessLogType_DownstreamStart || t == datav3.AccessLogType_TcpConnectionStart
}

// appendHTTP appends the line of an HTTP request.
func appendHTTP(text []byte, e *datav3.HTTPAccessLogEntry) []byte {
	o := object(append(text, '{'))
	in, out := e.GetRequest(), e.GetResponse()
	if code := out.GetResponseCode(); code != nil {
		o.number("response_code", uint64(code.GetValue()))
	}
	o.number("bytes_received", in.GetRequestBodyBytes())
	o.number("bytes_sent", out.GetResponseBodyBytes())
	if m := in.GetRequestMethod(); m != corev3.RequestMethod_METHOD_UNSPECIFIED {
		o.text("method", m.String())
	}
	o.text("protocol", protocol(e.GetProtocolVersion()))
	o.text("response_code_details", out.GetResponseCodeDetails())
	appendCommon(&o, e.GetCommonProperties())
	chosen := []field{
		{"path", in.GetPath()}, {"x_envoy_original_path", in.GetOriginalPath()}, {"authority", in.GetAuthority()}, {"scheme", in.GetScheme()},
		{"user_agent", in.GetUserAgent()}, {"referer", in.GetReferer()}, {"x_forwarded_for", in.GetForwardedFor()}, {"request_id", in.GetRequestId()},
		{"requested_server_name", e.GetCommonProperties().GetTlsProperties().GetTlsSniHostname()},
	}
	chosen = appendFields(chosen, "request_headers.", in.GetRequestHeaders())
	chosen = appendFields(chosen, "response_headers.", out.GetResponseHeaders())
	chosen = appendFields(chosen, "custom_tags.", e.GetCommonProperties().GetCustomTags())
	slices.SortFunc(chosen, func(a, b field) int {
		return cmp.Or(cmp.Compare(len(a.value), len(b.value)), cmp.Compare(a.name, b.name))
	})
	for _, f := range chosen {
		o.text(f.name, f.value)
	}
	return append(o, "}\n"...)
}

// appendTCP appends the line of a connection.
func appendTCP(text []byte, e *datav3.TCPAccessLogEntry) []byte {
	o := object(append(text, '{'))
	o.number("bytes_received", e.GetConnectionProperties().GetReceivedBytes())
	o.number("bytes_sent", e.GetConnectionProperties().GetSentBytes())
	appendCommon(&o, e.GetCommonProperties())
	for _, f := range appendFields(nil, "custom_tags.", e.GetCommonProperties().GetCustomTags()) {
		o.text(f.name, f.value)
	}
	o.text("requested_server_name", e.GetCommonProperties().GetTlsProperties().GetTlsSniHostname())
	return append(o, "}\n"...)
}

// appendCommon appends what requests and connections have in common. Clients choose nothing of it.
func appendCommon(o *object, c *datav3.AccessLogCommon) {
	appendTime(o, "start_time", c.GetStartTime())
	appendAddress(o, "downstream_remote_address", c.GetDownstreamRemoteAddress())
	appendAddress(o, "downstream_direct_remote_address", c.GetDownstreamDirectRemoteAddress())
	appendAddress(o, "downstream_local_address", c.GetDownstreamLocalAddress())
	appendAddress(o, "upstream_host", c.GetUpstreamRemoteAddress())
	o.text("upstream_cluster", c.GetUpstreamCluster())
	o.text("route_name", c.GetRouteName())
	if d := c.GetDuration(); d != nil {
		o.number("duration", uint64(max(0, d.AsDuration().Milliseconds())))
	}
	o.text("response_flags", responseFlags(c.GetResponseFlags()))
	if t := c.GetAccessLogType(); t != datav3.AccessLogType_NotSet {
		o.text("access_log_type", t.String())
	}
}

func appendTime(o *object, name string, at *timestamppb.Timestamp) {
	if at != nil {
		o.time(name, at.AsTime())
	}
}

// appendAddress appends an address and its port. That of a Unix socket is left out.
func appendAddress(o *object, name string, a *corev3.Address) {
	socket := a.GetSocketAddress()
	if socket == nil {
		return
	}
	host := socket.GetAddress()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	o.text(name, host+":"+strconv.FormatUint(uint64(socket.GetPortValue()), 10))
}

// field is a member whose text somebody else may choose.
type field struct{ name, value string }

func appendFields(to []field, prefix string, values map[string]string) []field {
	for name, value := range values {
		to = append(to, field{prefix + name, value})
	}
	return to
}

func protocol(v datav3.HTTPAccessLogEntry_HTTPVersion) string {
	switch v {
	case datav3.HTTPAccessLogEntry_HTTP10:
		return "HTTP/1.0"
	case datav3.HTTPAccessLogEntry_HTTP11:
		return "HTTP/1.1"
	case datav3.HTTPAccessLogEntry_HTTP2:
		return "HTTP/2"
	case datav3.HTTPAccessLogEntry_HTTP3:
		return "HTTP/3"
	default:
		return ""
	}
}

// responseFlags returns the flags as Envoy's text has them (%RESPONSE_FLAGS%), with commas between; "" if none is set.
func responseFlags(f *datav3.ResponseFlags) string {
	if f == nil {
		return ""
	}
	var out []byte
	for _, flag := range []struct {
		set  bool
		name string
	}{
		{f.GetFailedLocalHealthcheck(), "LH"}, {f.GetNoHealthyUpstream(), "UH"}, {f.GetUpstreamRequestTimeout(), "UT"}, {f.GetLocalReset(), "LR"},
		{f.GetUpstreamRemoteReset(), "UR"}, {f.GetUpstreamConnectionFailure(), "UF"}, {f.GetUpstreamConnectionTermination(), "UC"},
		{f.GetUpstreamOverflow(), "UO"}, {f.GetNoRouteFound(), "NR"}, {f.GetDelayInjected(), "DI"}, {f.GetFaultInjected(), "FI"},
		{f.GetRateLimited(), "RL"}, {f.GetUnauthorizedDetails() != nil, "UAEX"}, {f.GetRateLimitServiceError(), "RLSE"},
		{f.GetDownstreamConnectionTermination(), "DC"}, {f.GetUpstreamRetryLimitExceeded(), "URX"}, {f.GetStreamIdleTimeout(), "SI"},
		{f.GetInvalidEnvoyRequestHeaders(), "IH"}, {f.GetDownstreamProtocolError(), "DPE"}, {f.GetUpstreamMaxStreamDurationReached(), "UMSDR"},
		{f.GetResponseFromCacheFilter(), "RFCF"}, {f.GetNoFilterConfigFound(), "NFCF"}, {f.GetDurationTimeout(), "DT"},
		{f.GetUpstreamProtocolError(), "UPE"}, {f.GetNoClusterFound(), "NC"}, {f.GetOverloadManager(), "OM"}, {f.GetDnsResolutionFailure(), "DF"},
		{f.GetDownstreamRemoteReset(), "DR"},
	} {
		if flag.set {
			if len(out) > 0 {
				out = append(out, ',')
			}
			out = append(out, flag.name...)
		}
	}
	return string(out)
}
