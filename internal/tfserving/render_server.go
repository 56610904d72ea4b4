package tfserving

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/tfserving/modelconfig"
)

// serverArgs are the arguments of spec.server. An argument that TensorFlow Serving does not know is printed and ignored by it, so that
// those without a field are named in the status.
func (r *renderer) serverArgs() []string {
	s := r.cr.Spec.Server
	if s == nil {
		return nil
	}
	var out []string
	number := func(name string, n *int32, factor int64) {
		if n != nil {
			out = append(out, fmt.Sprintf("--%s=%d", name, int64(*n)*factor))
		}
	}
	truth := func(name string, b *bool) {
		if b != nil {
			out = append(out, fmt.Sprintf("--%s=%t", name, *b))
		}
	}
	if s.GPUMemoryPercent != nil {
		out = append(out, "--per_process_gpu_memory_fraction="+strconv.FormatFloat(float64(*s.GPUMemoryPercent)/100, 'f', -1, 64))
	}
	number("tensorflow_intra_op_parallelism", s.IntraOpThreads, 1)
	number("tensorflow_inter_op_parallelism", s.InterOpThreads, 1)
	number("rest_api_num_threads", s.RESTThreads, 1)
	number("rest_api_timeout_in_ms", s.RESTTimeoutMillis, 1)
	number("grpc_max_threads", s.GRPCThreads, 1)
	number("grpc_channel_arguments=grpc.max_connection_age_ms", s.GRPCMaxConnectionAgeSeconds, 1000)
	number("num_load_threads", s.LoadThreads, 1)
	number("max_num_load_retries", s.MaxLoadRetries, 1)
	number("load_retry_interval_micros", s.LoadRetrySeconds, 1e6)
	number("file_system_poll_wait_seconds", s.VersionPollSeconds, 1)
	truth("enable_model_warmup", s.Warmup)
	number("num_request_iterations_for_warmup", s.WarmupIterations, 1)
	truth("enable_profiler", s.Profiler)
	if s.PerModelBatching {
		out = append(out, "--enable_per_model_batching_parameters=true")
	}
	if s.TLS != nil {
		out = append(out, "--ssl_config_file="+r.tlsFile())
	}
	if len(s.ExtraArgs) > 0 {
		var names []string
		for _, a := range s.ExtraArgs {
			name, _, _ := strings.Cut(a, "=")
			names = append(names, name)
		}
		r.warn("spec.server.extraArgs are given to TensorFlow Serving unchecked, which ignores those that it does not know: %s",
			strings.Join(names, " "))
	}
	return append(out, s.ExtraArgs...)
}

// warnings tell of what was accepted and is not, or not yet, as declared.
func (r *renderer) warnings() {
	if r.facts.SingleNode && r.maxReplicas() > 1 {
		where := "on one node"
		if r.facts.SinglePod {
			where = "one pod only"
		}
		r.warn("spec.modelVolume.claimName (%s) can be mounted %s: use a claim with ReadOnlyMany or ReadWriteMany for more than one server",
			r.cr.Spec.ModelVolume.ClaimName, where)
	}
	if r.cr.Spec.ConfigReload == v1alpha1.ConfigPoll && !polls(r.cr, r.facts) {
		r.warn("spec.configReload is used as Restart: the models that are downloaded before the server starts need another pod")
	}
	if running := r.facts.Running; running != nil && (r.facts.NextRestart != "" || r.facts.Restart != running.Restart) {
		r.warn("the servers are replaced, since those that run would not come to serve the config by reading it: they wait for a model of an earlier " +
			"one, and read no other meanwhile, or a model has another base path, whose versions they do not load where they have one of that number")
	}
	if name := r.facts.Config.Logged(); name != "" {
		r.warn("model %q has a logging_config: spec.image needs a logger for it, without which the servers end at their start", name)
	}
	if requests := gracePeriod(r.cr) - drain; restTimeout(r.cr) > requests {
		r.warn("spec.terminationGracePeriodSeconds leaves %d seconds for the requests under way when a pod ends, but spec.server.restTimeoutMillis "+
			"is %d: raise the one or lower the other, else longer requests are cut", requests, *r.cr.Spec.Server.RESTTimeoutMillis)
	}
	if unknown := r.facts.Unknown; unknown != "" {
		r.warn("the model config has a field that MLKeeper does not know: spec.image needs a server that does, without which it ends at its start: %s",
			controller.Cut(unknown, maxUnknown))
	}
	if r.facts.TLSAdmitsNobody {
		r.warn("the SSLConfig has client_verify without custom_ca: no client has a certificate that the gRPC API could verify, so that it admits none")
	}
	if m, found := unreadable(r.facts.Config); found {
		r.warn("model %q has the base_path %q: spec.image needs a file system for its scheme, without which the servers wait for it for ever",
			m.Name, m.BasePath)
	}
	if n := len(r.facts.Config.Models()); n > maxQuestions {
		r.warn("the servers are asked for the first %d of %d models", maxQuestions, n)
	}
	r.unused()
	r.labels()
}

// unused tells of fields that mean nothing without another.
func (r *renderer) unused() {
	spec := r.cr.Spec
	service, server := ptr.Deref(spec.Service, v1alpha1.ServiceSpec{}), ptr.Deref(spec.Server, v1alpha1.ServerSpec{})
	s3, balanced := ptr.Deref(spec.S3, v1alpha1.S3Spec{}), r.serviceType() == corev1.ServiceTypeLoadBalancer
	for _, f := range []struct {
		unused       bool
		field, needs string
	}{
		{spec.ConfigPollSeconds != nil && spec.ConfigReload != v1alpha1.ConfigPoll, "spec.configPollSeconds", "spec.configReload Poll"},
		{spec.SecretFileLocation != "" && !usesSecret(r.cr), "spec.secretFileLocation", "spec.secretFileName or spec.secretName"},
		{service.LoadBalancerClass != "" && !balanced, "spec.service.loadBalancerClass", "spec.serviceType LoadBalancer"},
		{len(service.LoadBalancerSourceRanges) > 0 && !balanced, "spec.service.loadBalancerSourceRanges", "spec.serviceType LoadBalancer"},
		{
			service.ExternalTrafficPolicy != "" && r.serviceType() == corev1.ServiceTypeClusterIP,
			"spec.service.externalTrafficPolicy", "spec.serviceType NodePort or LoadBalancer",
		},
		{server.WarmupIterations != nil && !ptr.Deref(server.Warmup, true), "spec.server.warmupIterations", "spec.server.warmup"},
		{s3.Downloader != nil && s3.ImageReadsS3, "spec.s3.downloader", "spec.s3.imageReadsS3 false"},
		{s3.Downloader != nil && !s3.ImageReadsS3 && len(r.facts.Downloads) == 0, "spec.s3.downloader", "a model below s3://"},
		{s3.Insecure && s3.Endpoint == "", "spec.s3.insecure", "spec.s3.endpoint"},
	} {
		if f.unused {
			r.warn("%s has no effect without %s", f.field, f.needs)
		}
	}
}

// labels tells of labels whose version is not available: those that stay where they are until it is, and those by which requests fail.
func (r *renderer) labels() {
	for _, h := range r.facts.Held {
		r.warn("the label %q of model %q stays at version %d until every server has version %d available", h.Label, h.Model, h.At, h.To)
	}
	answer, running := r.facts.Answer, r.facts.Running
	if answer == nil || answer.Answered == 0 || answer.Answered < answer.Servers || running == nil || !running.Current {
		return
	}
	asked := map[string]bool{}
	for _, m := range askedOf(r.facts.Config, nil) {
		asked[m.Name] = true
	}
	lacking := slices.DeleteFunc(r.facts.Config.Labels(), func(l modelconfig.Label) bool {
		return !asked[l.Model] || answer.Loaded[LoadedVersion{l.Model, l.Version}]
	})
	for _, l := range lacking {
		r.warn("the label %q of model %q names version %d, which not every server has available: requests by it fail there",
			l.Name, l.Model, l.Version)
	}
}
