package tfserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	// exitFailure is what a main that returns -1 ends with, and exitAbort what a fatal check does.
	exitFailure, exitAbort = 255, 134
	defaultMetrics         = "/monitoring/prometheus/metrics"
)

// Main is the program: its status is what the real one ends with. It has no handler of SIGTERM, so that the signal ends it at once, unless
// it is the first process of a container, which the kernel then does not send the signal to.
func Main(args []string, store Store) int {
	ctx := context.Background()
	if os.Getpid() != 1 {
		// By a handler all the same, so that tests measure what it ran through.
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
	} else {
		signal.Ignore(syscall.SIGTERM)
	}
	return Run(ctx, args, store, os.Stdout)
}

// Run runs the server until ctx ends.
func Run(ctx context.Context, args []string, store Store, out io.Writer) int {
	options, unknown, err := ParseFlags(args)
	if err != nil {
		fmt.Fprintf(out, "%v\nusage: tensorflow_model_server\n", err)
		return exitFailure
	}
	if options.Version {
		fmt.Fprintln(out, "TensorFlow ModelServer: 2.20.0 (stand-in)\nTensorFlow Library: none")
		return 0
	}
	if len(unknown) > 0 {
		fmt.Fprintf(out, "unknown argument: %s\nusage: tensorflow_model_server\n", unknown[0])
	}
	if disk, ok := store.(Disk); ok {
		disk.Warmup = options.ModelWarmup
		store = disk
	}
	core := NewCore(options, store, out)
	if err := core.start(ctx); err != nil {
		if ctx.Err() != nil {
			return 0
		}
		if status.Code(err) == codes.Aborted {
			fmt.Fprintln(out, status.Convert(err).Message())
			return exitAbort
		}
		fmt.Fprintf(out, "Failed to start server. Error: %s\n", printed(err))
		return exitFailure
	}
	<-ctx.Done()
	return 0
}

// start is BuildAndStart.
func (c *Core) start(ctx context.Context) error {
	config, err := c.checkOptions()
	if err != nil {
		return err
	}
	loaded := make(chan error, 1)
	go func() { loaded <- c.Reload(config) }()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-loaded:
		if err != nil {
			return err
		}
	}
	if o := c.options; o.ModelConfigPollSeconds > 0 && o.ModelConfigFile != "" {
		go c.every(time.Duration(o.ModelConfigPollSeconds)*time.Second, c.pollConfig)
	}
	return c.open(ctx)
}

// checkOptions does the checks before anything is loaded, and makes the first config.
func (c *Core) checkOptions() (proto.Message, error) {
	o, config := c.options, message("ModelServerConfig")
	switch {
	case o.Port == 0 && o.SocketPath == "":
		return nil, invalid("At least one of server_options.grpc_port or server_options.grpc_socket_path must be set.")
	case o.ALTS && o.SSLFile != "":
		return nil, invalid("Either use_alts_credentials must be false or ssl_config_file must be empty.")
	case o.ModelBasePath == "" && o.ModelConfigFile == "":
		return nil, invalid("Both server_options.model_base_path and server_options.model_config_file are empty!")
	case o.ALTS || o.SSLFile != "" || o.SocketPath != "" || o.PlatformConfigFile != "" || o.SessionConfigFile != "":
		return nil, status.Error(codes.Unimplemented, "the stand-in has neither credentials, sockets, platforms nor sessions")
	}
	if o.ModelConfigFile == "" {
		list := inside(config, "model_config_list")
		configs := list.Mutable(list.Descriptor().Fields().ByName("config")).List()
		m := configs.AppendMutable().Message()
		put(m, "name", o.ModelName)
		put(m, "base_path", o.ModelBasePath)
		put(m, "model_platform", tensorflow)
	} else if err := readText(o.ModelConfigFile, config); err != nil {
		return nil, err
	}
	switch {
	case o.EnableBatching && o.BatchingFile != "":
		if err := readText(o.BatchingFile, furtherMessage("BatchingParameters")); err != nil {
			return nil, err
		}
	case o.BatchingFile != "":
		return nil, invalid("server_options.batching_parameters_file is set without setting server_options.enable_batching to true.")
	}
	if o.IntraOp > 0 && o.InterOp > 0 && o.SessionParallelism > 0 {
		return nil, invalid("Either configure server_options.tensorflow_session_parallelism or (server_options.tensorflow_intra_op_parallelism, " +
			"server_options.tensorflow_inter_op_parallelism) separately. You cannot configure all.")
	}
	return config, nil
}

// pollConfig reads the config file again. What cannot be read, or is refused, is only logged.
func (c *Core) pollConfig() {
	config := message("ModelServerConfig")
	if err := readText(c.options.ModelConfigFile, config); err != nil {
		c.log("Failed to read ModelServerConfig file: %s", status.Convert(err).Message())
		return
	}
	if err := c.Reload(config); err != nil {
		c.log("PollFilesystemAndReloadConfig failed to ReloadConfig: %s", status.Convert(err).Message())
	}
}

// open opens the ports, that of gRPC first.
func (c *Core) open(ctx context.Context) error {
	var listen net.ListenConfig
	if c.options.Port != 0 {
		l, err := listen.Listen(ctx, "tcp4", fmt.Sprintf("0.0.0.0:%d", c.options.Port))
		if err != nil {
			return invalid("Failed to BuildAndStart gRPC server")
		}
		go func() { _ = c.GRPC().Serve(l) }()
		c.log("Running gRPC ModelServer at 0.0.0.0:%d ...", c.options.Port)
	}
	port := c.options.RESTPort
	if port == 0 {
		return nil
	}
	if port == c.options.Port {
		c.log("server_options.http_port cannot be same as grpc_port. Please use a different port for HTTP/REST API. " +
			"Skipped exporting HTTP/REST API.")
		return nil
	}
	metrics, err := c.metricsPath()
	if err != nil {
		return err
	}
	l, err := listen.Listen(ctx, "tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		c.log("Failed to start HTTP Server at localhost:%d", port)
		return nil
	}
	server := &http.Server{Handler: c.REST(metrics), ReadHeaderTimeout: time.Minute}
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			c.log("HTTP server: %v", err)
		}
	}()
	c.log("Exporting HTTP/REST API at:localhost:%d ...", port)
	return nil
}

// metricsPath is where the metrics are; empty for nowhere.
func (c *Core) metricsPath() (string, error) {
	if c.options.MonitoringFile == "" {
		return "", nil
	}
	m := furtherMessage("MonitoringConfig")
	if err := readText(c.options.MonitoringFile, m); err != nil {
		return "", err
	}
	prometheus := get(m, "prometheus_config").Message()
	if !get(prometheus, "enable").Bool() {
		return "", nil
	}
	if path := get(prometheus, "path").String(); path != "" {
		return path, nil
	}
	return defaultMetrics, nil
}
