package gategrpc

import (
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/internal/front"
)

// HTTPStatus returns the status number of a gRPC code in entries: the HTTP status in google/rpc/code.proto. It is 200 for
// OK, 499 for Canceled and 504 for DeadlineExceeded. For a code that gRPC does not define it is 500.
func HTTPStatus(c codes.Code) int {
	if c < codes.Code(len(httpStatus)) {
		return int(httpStatus[c])
	}
	return int(httpStatus[codes.Unknown])
}

var httpStatus = [...]uint16{
	codes.OK:                 200,
	codes.Canceled:           499,
	codes.Unknown:            500,
	codes.InvalidArgument:    400,
	codes.DeadlineExceeded:   504,
	codes.NotFound:           404,
	codes.AlreadyExists:      409,
	codes.PermissionDenied:   403,
	codes.ResourceExhausted:  429,
	codes.FailedPrecondition: 400,
	codes.Aborted:            409,
	codes.OutOfRange:         400,
	codes.Unimplemented:      501,
	codes.Internal:           500,
	codes.Unavailable:        503,
	codes.DataLoss:           500,
	codes.Unauthenticated:    401,
}

// Refusal returns the status of a call that a verdict refuses: ResourceExhausted, with the details RetryInfo and, if the
// rule is known, QuotaFailure. It does not contain the caller, which may be another client's address.
func Refusal(v gate.Verdict) *status.Status {
	wait := time.Duration(front.WholeSeconds(v.RetryAfter)) * time.Second
	s := status.New(codes.ResourceExhausted, "too many requests: retry after "+wait.String())
	s = with(s, &errdetails.RetryInfo{RetryDelay: durationpb.New(max(v.RetryAfter, 0))})
	if v.Rule == "" {
		return s
	}
	violation := &errdetails.QuotaFailure_Violation{Subject: v.Rule, QuotaId: v.Rule}
	if v.Limit > 0 && v.Window > 0 {
		violation.Description = fmt.Sprintf("limit of %d in %v", v.Limit, v.Window)
		violation.QuotaValue = v.Limit
	}
	return with(s, &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{violation}})
}

// with adds a detail, if it can be encoded; the name of a rule may not be UTF-8.
func with(s *status.Status, detail protoadapt.MessageV1) *status.Status {
	if t, err := s.WithDetails(detail); err == nil {
		return t
	}
	return s
}

// codeOf returns the code that grpc-go sends for a handler's error.
func codeOf(err error) codes.Code {
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err)
	}
	return s.Code()
}
