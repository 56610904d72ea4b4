package modelconfig

import "mlkeeper.dev/internal/tfserving/protos"

// serverConfig is the message whose text proto a model config is.
var serverConfig = protos.Message("ModelServerConfig")
