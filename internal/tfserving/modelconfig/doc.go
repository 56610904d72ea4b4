// Package modelconfig reads and writes TensorFlow Serving's model config, the text proto ModelServerConfig
// (tensorflow_serving/config/model_server_config.proto), and says what the server would refuse before it is started with it. It is pure:
// text in, text out.
package modelconfig
