package tfserver

import (
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"mlkeeper.dev/internal/tfserving/protos"
)

// codeName is the name of a code as TensorFlow prints it.
func codeName(code codes.Code) string {
	all := protos.Message("StatusProto").Fields().ByName("error_code").Enum().Values()
	if v := all.ByNumber(enumNumber(code)); v != nil {
		return string(v.Name())
	}
	return "UNKNOWN"
}

// printed is an error as absl::Status prints it.
func printed(err error) string {
	s := status.Convert(err)
	return codeName(s.Code()) + ": " + s.Message()
}

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

func precondition(format string, args ...any) error {
	return status.Errorf(codes.FailedPrecondition, format, args...)
}

func notFound(format string, args ...any) error {
	return status.Errorf(codes.NotFound, format, args...)
}

// httpCode is that of an answer by REST (model_servers/http_server.cc: ToHTTPStatusCode).
func httpCode(err error) int {
	switch status.Code(err) {
	case codes.OK:
		return http.StatusOK
	case codes.Canceled:
		return 499
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange:
		return http.StatusBadRequest
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	case codes.NotFound:
		return http.StatusNotFound
	case codes.AlreadyExists, codes.Aborted:
		return http.StatusConflict
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	}
	return http.StatusInternalServerError
}
