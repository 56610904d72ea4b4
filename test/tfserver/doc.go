// Package tfserver is a stand-in for tensorflow_model_server, for tests: a program with the flags of release 2.20.0, and the same server
// within the process of a test. It does what the sources of github.com/tensorflow/serving say, in the folder tensorflow_serving; no line of
// them is here. Its messages are those of the published .proto files. What it calculates is one toy model, y = 2x + b, whose SavedModel
// the real server serves, too: make test-tfserving runs the tests of this package's program on the real one.
//
//   - flags.go: the flags, their defaults and how their values are read (model_servers/main.cc, server.h; TensorFlow's
//     util/command_line_flags.cc): one that is not known is printed and ignored, a value that cannot be read ends the program with 255.
//   - process.go: the order of the start, and what ends it (model_servers/main.cc, server.cc): the ports open after the initial load, for
//     which it waits without limit; REST is skipped where both ports are one; there is no handler of SIGTERM.
//   - config.go: which configs are refused (server_core.cc: ValidateModelConfigList, GetPlatform, ValidateNoModelsChangePlatforms,
//     UpdateModelVersionLabelMap; core/server_request_logger.cc).
//   - core.go: reloads (server_core.cc: ReloadConfig, AddModelsViaModelConfigList): a reload that is refused for a label has replaced the
//     config all the same, and one that adds a model waits without limit for it, while no other begins.
//   - source.go: which versions are wanted (sources/storage_path/file_system_storage_path_source.cc): one base path that cannot be read
//     ends the poll for all models; one without versions unloads them.
//   - manager.go: the states of versions (core/aspired_versions_manager.cc, loader_harness.cc, availability_preserving_policy.cc): the new
//     version loads before the old one unloads; one that failed is tried again only after it was not wanted for a while, which it stays
//     where the version before it serves on; without num_load_threads a load, and the pauses before it is tried again, hold up everything
//     else.
//   - rest.go: paths, codes and answers (model_servers/http_rest_api_util.cc, http_rest_api_handler.cc, http_server.cc,
//     get_model_status_impl.cc): a label in a question for the status is ignored.
//   - grpc.go: ModelService (model_servers/model_service_impl.cc) and grpc.health.v1 (server.cc). PredictionService is not here.
//   - metrics.go: names and labels of the request metrics (servables/tensorflow/util.cc, util/prometheus_exporter.cc).
//   - warmup.go: warm-up files (servables/tensorflow/saved_model_warmup_util.cc): a record that cannot be read fails the load.
package tfserver
