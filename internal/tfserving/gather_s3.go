package tfserving

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/tfserving/modelconfig"
)

// The keys of a Secret with credentials for S3 are the names of the environment variables.
const (
	accessKey    = "AWS_ACCESS_KEY_ID"
	secretKey    = "AWS_SECRET_ACCESS_KEY"
	sessionToken = "AWS_SESSION_TOKEN"
)

func onS3(m modelconfig.Model) bool { return strings.HasPrefix(m.BasePath, "s3://") }

// s3 settles how models below s3:// are read: TensorFlow Serving has no S3 built in since 2.7 (tensorflow/serving #1963),
// and would wait for such a path for ever.
func (g *gathering) s3(ctx context.Context) error {
	models := slices.DeleteFunc(g.facts.Config.Models(), func(m modelconfig.Model) bool { return !onS3(m) })
	spec := g.cr.Spec.S3
	if len(models) == 0 {
		return nil
	}
	if spec == nil || !spec.ImageReadsS3 && spec.Downloader == nil || spec.ImageReadsS3 && g.ofTensorFlow() {
		g.problem(plan.Terminal, reasonS3NotReadable, "spec.s3", models[0].BasePath,
			fmt.Sprintf("model %q is below s3://, which TensorFlow Serving cannot read since 2.7", models[0].Name),
			"set spec.s3.downloader.image to an image that downloads it, or spec.s3.imageReadsS3 with an image that reads it")
		return nil
	}
	if spec.SecretName != "" {
		if err := g.s3Credentials(ctx, spec.SecretName); err != nil {
			return err
		}
	}
	if spec.ImageReadsS3 {
		return nil
	}
	const remedy = "take the field out, or set spec.s3.imageReadsS3 with an image that reads S3"
	if g.dropped("for the models that spec.s3.downloader downloads", remedy) {
		return nil
	}
	moved := map[string]string{}
	for i, m := range models {
		// The name of a model may be anything, a path that leads elsewhere too.
		to := join(downloadsPath, strconv.Itoa(i))
		moved[m.Name] = to
		g.facts.Downloads = append(g.facts.Downloads, Download{From: m.BasePath, To: to})
	}
	local := g.facts.Config.Moved(func(m modelconfig.Model) string { return cmp.Or(moved[m.Name], m.BasePath) })
	g.facts.Config, g.facts.ConfigText, g.facts.ConfigOwn = local, local.String(), true
	return nil
}

// ofTensorFlow says that the servers have an image of TensorFlow Serving's own.
func (g *gathering) ofTensorFlow() bool {
	return g.cr.Spec.Image == "" && g.settings.Image == DefaultImage && g.settings.GPUImage == DefaultGPUImage
}

func (g *gathering) s3Credentials(ctx context.Context, name string) error {
	secret, err := g.read.Referenced(ctx, gvkSecret, g.cr.Namespace, name)
	if err != nil {
		return err
	}
	const field = "spec.s3.secretName"
	if secret == nil {
		g.problem(plan.Waiting, reasonSecretNotFound, field, name, "there is no Secret of this name in the namespace",
			"create it with the keys "+accessKey+" and "+secretKey)
		return nil
	}
	data := controller.SecretData(secret)
	g.secrets = append(g.secrets, controller.Only(data, accessKey, secretKey, sessionToken))
	for _, key := range []string{accessKey, secretKey} {
		if len(data[key]) == 0 {
			g.problem(plan.Waiting, reasonSecretKeyNotFound, field, name, "the Secret has no key "+key, "add it")
			return nil
		}
	}
	return nil
}
