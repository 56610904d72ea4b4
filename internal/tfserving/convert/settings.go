package convert

import (
	"cmp"
	"maps"
	"math"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
)

// settings are the flags that are fields of spec.server and spec.configReload. A value that the field cannot have is not converted.
func (c *conversion) settings() map[string]func(string) bool {
	server := func() *v1alpha1.ServerSpec {
		c.out.Spec.Server = cmp.Or(c.out.Spec.Server, &v1alpha1.ServerSpec{})
		return c.out.Spec.Server
	}
	out := map[string]func(string) bool{
		"per_process_gpu_memory_fraction": func(value string) bool {
			share, err := strconv.ParseFloat(value, 64)
			percent := math.Round(share * 100)
			if err != nil || math.IsNaN(share) || percent < 1 || percent > 100 || math.Abs(share*100-percent) > 1e-6 {
				return false
			}
			server().GPUMemoryPercent = ptr.To(int32(percent))
			return true
		},
		// It stands for both, with 0 as if it were not there.
		"tensorflow_session_parallelism": func(value string) bool {
			return value == "0" || number(value, 1, 1, 1024, func(n *int32) { server().IntraOpThreads, server().InterOpThreads = n, n })
		},
		"grpc_channel_arguments": func(value string) bool {
			value, alone := strings.CutPrefix(value, "grpc.max_connection_age_ms=")
			return alone && number(value, 1000, 1, 86400, func(n *int32) { server().GRPCMaxConnectionAgeSeconds = n })
		},
		"model_config_file_poll_wait_seconds": func(value string) bool {
			if value == "0" {
				return true
			}
			return number(value, 1, 1, 3600, func(n *int32) { c.out.Spec.ConfigReload, c.out.Spec.ConfigPollSeconds = v1alpha1.ConfigPoll, n })
		},
	}
	for name, f := range map[string]struct {
		factor, least, most int64
		set                 func(*v1alpha1.ServerSpec, *int32)
	}{
		"tensorflow_intra_op_parallelism":   {1, 1, 1024, func(s *v1alpha1.ServerSpec, n *int32) { s.IntraOpThreads = n }},
		"tensorflow_inter_op_parallelism":   {1, 1, 1024, func(s *v1alpha1.ServerSpec, n *int32) { s.InterOpThreads = n }},
		"rest_api_num_threads":              {1, 1, 4096, func(s *v1alpha1.ServerSpec, n *int32) { s.RESTThreads = n }},
		"rest_api_timeout_in_ms":            {1, 1, 86400000, func(s *v1alpha1.ServerSpec, n *int32) { s.RESTTimeoutMillis = n }},
		"grpc_max_threads":                  {1, 1, 4096, func(s *v1alpha1.ServerSpec, n *int32) { s.GRPCThreads = n }},
		"num_load_threads":                  {1, 0, 256, func(s *v1alpha1.ServerSpec, n *int32) { s.LoadThreads = n }},
		"max_num_load_retries":              {1, 0, 1000, func(s *v1alpha1.ServerSpec, n *int32) { s.MaxLoadRetries = n }},
		"load_retry_interval_micros":        {1e6, 0, 3600, func(s *v1alpha1.ServerSpec, n *int32) { s.LoadRetrySeconds = n }},
		"file_system_poll_wait_seconds":     {1, 1, 86400, func(s *v1alpha1.ServerSpec, n *int32) { s.VersionPollSeconds = n }},
		"num_request_iterations_for_warmup": {1, 1, 1000, func(s *v1alpha1.ServerSpec, n *int32) { s.WarmupIterations = n }},
	} {
		out[name] = func(value string) bool {
			return number(value, f.factor, f.least, f.most, func(n *int32) { f.set(server(), n) })
		}
	}
	maps.Copy(out, map[string]func(string) bool{
		"enable_model_warmup": truth(func(b *bool) { server().Warmup = b }),
		"enable_profiler":     truth(func(b *bool) { server().Profiler = b }),
		"enable_per_model_batching_parameters": truth(func(b *bool) {
			if *b {
				server().PerModelBatching = true
			}
		}),
	})
	return out
}

// number sets a field to a whole multiple of a unit within bounds.
func number(value string, unit, least, most int64, set func(*int32)) bool {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n%unit != 0 || n/unit < least || n/unit > most {
		return false
	}
	set(ptr.To(int32(n / unit))) //nolint:gosec // Bounded here.
	return true
}

// truth sets a field to what a switch says, which is on without a value.
func truth(set func(*bool)) func(string) bool {
	return func(value string) bool {
		switch strings.ToLower(value) {
		case "true", "":
			set(ptr.To(true))
		case "false":
			set(ptr.To(false))
		default:
			return false
		}
		return true
	}
}
