package sidecar

import (
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
)

// authorizer is Envoy's external authorization service.
type authorizer struct {
	authv3.UnimplementedAuthorizationServer
	answers

	gates http.Handler
}

// Check lets the gates answer the request that Envoy describes. If Envoy describes none, the request has no callers, and
// passes.
func (a *authorizer) Check(_ context.Context, r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	w := reply{header: make(http.Header)}
	a.gates.ServeHTTP(&w, describedBy(r.GetAttributes()))
	a.count(w.status)
	if w.status != http.StatusTooManyRequests && w.status != http.StatusBadRequest {
		return &authv3.CheckResponse{
			Status:       &rpcstatus.Status{Code: int32(codes.OK)},
			HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{}},
		}, nil
	}
	return &authv3.CheckResponse{
		Status: &rpcstatus.Status{Code: int32(codes.PermissionDenied)},
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{
			Status:  &typev3.HttpStatus{Code: typev3.StatusCode(w.status)},
			Headers: w.fields(),
		}},
	}, nil
}

// describedBy returns the HTTP request of an AttributeContext, with the parts that caller functions read. Its peer is the
// address of the source, which connected to Envoy.
func describedBy(a *authv3.AttributeContext) *http.Request {
	in := a.GetRequest().GetHttp()
	r := &http.Request{
		Method: in.GetMethod(), Host: in.GetHost(), RequestURI: in.GetPath(), Proto: in.GetProtocol(),
		Header: make(http.Header, len(in.GetHeaders())), RemoteAddr: peer(a.GetSource().GetAddress()), Body: http.NoBody,
	}
	for name, value := range in.GetHeaders() {
		addField(r.Header, name, value)
	}
	for _, f := range in.GetHeaderMap().GetHeaders() {
		value := f.GetValue()
		if value == "" {
			value = string(f.GetRawValue())
		}
		addField(r.Header, f.GetKey(), value)
	}
	return r
}

// addField adds a field, unless it is one of HTTP/2's pseudo fields.
func addField(h http.Header, name, value string) {
	if !strings.HasPrefix(name, ":") {
		h.Add(name, value)
	}
}

// peer returns an address in the form of http.Request.RemoteAddr. If there is no address, it returns a text that is none.
func peer(a *corev3.Address) string {
	if a.GetPipe() != nil {
		return "@"
	}
	if s := a.GetSocketAddress(); s != nil {
		return net.JoinHostPort(s.GetAddress(), strconv.FormatUint(uint64(s.GetPortValue()), 10))
	}
	return "unknown"
}

// reply is a ResponseWriter that keeps the status and the header.
type reply struct {
	header http.Header
	status int
}

func (w *reply) Header() http.Header { return w.header }
func (w *reply) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *reply) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(b), nil
}

// fields returns the header in Envoy's form, sorted by name.
func (w *reply) fields() []*corev3.HeaderValueOption {
	var fields []*corev3.HeaderValueOption
	for _, name := range slices.Sorted(maps.Keys(w.header)) {
		for _, value := range w.header[name] {
			fields = append(fields, &corev3.HeaderValueOption{
				Header:       &corev3.HeaderValue{Key: name, Value: value},
				AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
			})
		}
	}
	return fields
}
