package convert

import (
	"slices"
	"strings"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
)

// s3 completes a Tfserv whose models are below s3://. MLKeeper downloads them, so that the variables of the server say how.
func (c *conversion) s3(field string) {
	c.out.Spec.S3 = &v1alpha1.S3Spec{Downloader: &v1alpha1.DownloaderSpec{Image: c.options.Downloader}}
	c.out.Spec.Env = slices.DeleteFunc(c.out.Spec.Env, func(e v1alpha1.EnvVar) bool { return c.s3Variable(field, e) })
	if c.out.Spec.S3.SecretName == "" {
		c.warn(field, "name a Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in spec.s3.secretName, unless the ServiceAccount has a "+
			"cloud identity, and the store in spec.s3.endpoint and region where it is not AWS: MLKeeper does not read the Secrets of a ServiceAccount")
	}
}

// s3Variable converts a variable that spec.s3 stands for, and says whether it is one.
func (c *conversion) s3Variable(field string, e v1alpha1.EnvVar) bool {
	s, converted := c.out.Spec.S3, false
	set := func(to *string, value string) {
		if converted = value != "" && (*to == "" || *to == value); converted {
			*to = value
		}
	}
	switch e.Name {
	case "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN":
		if from := e.ValueFrom; from != nil && from.SecretKeyRef != nil && from.SecretKeyRef.Key == e.Name {
			set(&s.SecretName, from.SecretKeyRef.Name)
		}
	case "AWS_REGION", "AWS_DEFAULT_REGION":
		set(&s.Region, e.Value)
	case "S3_ENDPOINT":
		set(&s.Endpoint, e.Value)
	case "AWS_ENDPOINT_URL":
		scheme, host, _ := strings.Cut(e.Value, "://")
		set(&s.Endpoint, host)
		s.Insecure = s.Insecure || scheme == "http"
	case "S3_USE_HTTPS":
		s.Insecure, converted = s.Insecure || e.Value == "0", true
	default:
		return false
	}
	if !converted {
		c.warn(field, "the variable %s is not converted: spec.s3 has a Secret with keys of these names, a region and an endpoint", e.Name)
	}
	return true
}
