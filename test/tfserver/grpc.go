package tfserver

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"mlkeeper.dev/internal/tfserving/protos"
)

// GRPC serves ModelService, and the health of the server where it is asked to.
func (c *Core) GRPC() *grpc.Server {
	server := grpc.NewServer()
	service := protos.Service("ModelService")
	description := grpc.ServiceDesc{ServiceName: string(service.FullName()), HandlerType: (*any)(nil), Metadata: service.ParentFile().Path()}
	for i := range service.Methods().Len() {
		method := service.Methods().Get(i)
		answer := map[string]func(*dynamicpb.Message) (proto.Message, error){
			"GetModelStatus": c.getModelStatus, "HandleReloadConfigRequest": c.handleReload,
		}[string(method.Name())]
		description.Methods = append(description.Methods, grpc.MethodDesc{
			MethodName: string(method.Name()),
			Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				request := dynamicpb.NewMessage(method.Input())
				if err := decode(request); err != nil {
					return nil, err
				}
				return answer(request)
			},
		})
	}
	server.RegisterService(&description, c)
	if c.options.HealthService {
		h := health.NewServer()
		h.SetServingStatus("ModelService", healthpb.HealthCheckResponse_SERVING)
		h.SetServingStatus("PredictionService", healthpb.HealthCheckResponse_SERVING)
		healthpb.RegisterHealthServer(server, h)
	}
	return server
}

func (c *Core) getModelStatus(request *dynamicpb.Message) (proto.Message, error) {
	if !has(request, "model_spec") {
		return nil, invalid("Missing ModelSpec")
	}
	spec := get(request, "model_spec").Message()
	var version *int64
	if has(spec, "version") {
		n := get(get(spec, "version").Message(), "value").Int()
		version = &n
	}
	out, err := c.ModelStatus(get(spec, "name").String(), version)
	if err != nil {
		return nil, err
	}
	return out.Interface(), nil
}

// handleReload reloads the config. By gRPC the status in the response reaches nobody where there is an error.
func (c *Core) handleReload(request *dynamicpb.Message) (proto.Message, error) {
	config := get(request, "config").Message().Interface()
	if !has(config.ProtoReflect(), "model_config_list") {
		return nil, invalid("ServerModelConfig type not supported by HandleReloadConfigRequest. Only ModelConfigList is currently supported")
	}
	if err := c.Reload(proto.Clone(config)); err != nil {
		c.log("ReloadConfig failed: %s", printed(err))
		return nil, err
	}
	out := message("ReloadConfigResponse")
	setStatus(inside(out, "status"), nil)
	return out, nil
}
