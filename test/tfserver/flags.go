package tfserver

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
)

// Options are the flags of which the stand-in knows what they do.
type Options struct {
	Port, RESTPort                        int32
	ModelConfigFile                       string
	ModelConfigPollSeconds                int32
	ModelName, ModelBasePath              string
	FileSystemPollSeconds                 int32
	NumLoadThreads, NumUnloadThreads      int32
	MaxLoadRetries                        int32
	LoadRetryMicros                       int64
	AllowLabelsForUnavailable             bool
	EnableBatching                        bool
	BatchingFile                          string
	MonitoringFile                        string
	HealthService                         bool
	ModelWarmup                           bool
	InterOp, IntraOp, SessionParallelism  int64
	SSLFile, SocketPath, SavedModelTags   string
	ALTS, Version                         bool
	SessionConfigFile, PlatformConfigFile string
}

// DefaultOptions are those of the real program (model_servers/server.h).
func DefaultOptions() Options {
	return Options{
		Port: 8500, ModelName: "default", FileSystemPollSeconds: 1, MaxLoadRetries: 5, LoadRetryMicros: 60_000_000, ModelWarmup: true,
		SavedModelTags: "serve",
	}
}

// initialThreads is how many loads run at once before the ports open (server_core.h: num_initial_load_threads).
func initialThreads() int { return 4 * runtime.NumCPU() }

// flags are all that main.cc lists, with where their values go.
func (o *Options) flags() map[string]any {
	// What the stand-in does not have is read nevertheless, since a value that cannot be read ends the program.
	var (
		ignoredText  string
		ignoredBool  bool
		ignored32    int32
		ignoredFloat float32
	)
	return map[string]any{
		"port": &o.Port, "grpc_socket_path": &o.SocketPath, "rest_api_port": &o.RESTPort, "rest_api_num_threads": &ignored32,
		"rest_api_timeout_in_ms": &ignored32, "rest_api_enable_cors_support": &ignoredBool, "enable_batching": &o.EnableBatching,
		"allow_version_labels_for_unavailable_models": &o.AllowLabelsForUnavailable, "batching_parameters_file": &o.BatchingFile,
		"enable_per_model_batching_parameters": &ignoredBool, "model_config_file": &o.ModelConfigFile,
		"model_config_file_poll_wait_seconds": &o.ModelConfigPollSeconds, "model_name": &o.ModelName, "model_base_path": &o.ModelBasePath,
		"num_load_threads": &o.NumLoadThreads, "num_unload_threads": &o.NumUnloadThreads, "max_num_load_retries": &o.MaxLoadRetries,
		"load_retry_interval_micros": &o.LoadRetryMicros, "file_system_poll_wait_seconds": &o.FileSystemPollSeconds,
		"flush_filesystem_caches": &ignoredBool, "tensorflow_session_parallelism": &o.SessionParallelism,
		"tensorflow_session_config_file": &o.SessionConfigFile, "tensorflow_intra_op_parallelism": &o.IntraOp,
		"tensorflow_inter_op_parallelism": &o.InterOp, "use_alts_credentials": &o.ALTS, "ssl_config_file": &o.SSLFile,
		"platform_config_file": &o.PlatformConfigFile, "per_process_gpu_memory_fraction": &ignoredFloat,
		"saved_model_tags": &o.SavedModelTags, "grpc_channel_arguments": &ignoredText, "grpc_max_threads": &ignored32,
		"enable_model_warmup": &o.ModelWarmup, "num_request_iterations_for_warmup": &ignored32, "version": &o.Version,
		"monitoring_config_file": &o.MonitoringFile, "remove_unused_fields_from_bundle_metagraph": &ignoredBool,
		"prefer_tflite_model": &ignoredBool, "num_tflite_pools": &ignored32, "num_tflite_interpreters_per_pool": &ignored32,
		"enable_signature_method_name_check": &ignoredBool, "xla_cpu_compilation_enabled": &ignoredBool,
		"xla_gpu_compilation_enabled": &ignoredBool, "enable_profiler": &ignoredBool, "thread_pool_factory_config_file": &ignoredText,
		"mixed_precision": &ignoredText, "skip_initialize_tpu": &ignoredBool, "enable_grpc_healthcheck_service": &o.HealthService,
		"enable_serialization_as_tensor_content": &ignoredBool,
	}
}

// ParseFlags reads arguments as TensorFlow does: --name=value, and --name alone for a switch. What is not known is returned, and is no
// error.
func ParseFlags(args []string) (options Options, unknown []string, err error) {
	options = DefaultOptions()
	flags := options.flags()
	for i, arg := range args {
		if arg == "--" {
			unknown = append(unknown, args[i:]...)
			break
		}
		name, value, valued := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		to, known := flags[name]
		_, isSwitch := to.(*bool)
		if !known || !strings.HasPrefix(arg, "--") || !valued && !isSwitch {
			unknown = append(unknown, arg)
			continue
		}
		if e := set(to, value, valued); e != nil {
			err = fmt.Errorf("couldn't interpret value %s for flag %s", value, name)
		}
	}
	if err == nil && len(unknown) > 0 && unknown[0] == "--help" {
		err = fmt.Errorf("asked for help")
	}
	return options, unknown, err
}

func set(to any, value string, valued bool) error {
	switch to := to.(type) {
	case *string:
		*to = value
	case *bool:
		switch strings.ToLower(value) {
		case "true":
			*to = true
		case "false":
			*to = false
		default:
			*to = true
			if valued {
				return fmt.Errorf("%q is neither true nor false", value)
			}
		}
	case *int32:
		n, err := strconv.ParseInt(value, 10, 32)
		*to = int32(n) //nolint:gosec // Parsed as such.
		return err
	case *int64:
		n, err := strconv.ParseInt(value, 10, 64)
		*to = n
		return err
	case *float32:
		n, err := strconv.ParseFloat(value, 32)
		*to = float32(n)
		return err
	}
	return nil
}
