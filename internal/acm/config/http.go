package config

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// defaultUser is whom Spring asks for where a file has a password and no name.
const defaultUser = "user"

// http is where health and metrics are served; nothing of it counts without a port.
func (f file) http() (HTTP, error) {
	if f.Server.Port == 0 {
		return HTTP{}, nil
	}
	out := HTTP{Port: int(f.Server.Port), User: f.Spring.Security.User.Name, Password: f.Spring.Security.User.Password}
	switch {
	case out.Password != "":
		out.User = cmp.Or(out.User, defaultUser)
	case out.User != "":
		return out, errors.New("spring.security.user.name is set, and there is no password, so that everybody would be let in: " +
			"set spring.security.user.password, or remove the name")
	}
	var err error
	out.ContextPath, err = f.contextPath()
	return out, err
}

// plainPath matches what a path may be that others are appended to. A pattern of http.ServeMux has braces, and panics where it is not clean.
var plainPath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)*$`)

// contextPath is what the paths of health and metrics begin with. As Spring does, it leaves out a slash at the end.
func (f file) contextPath() (string, error) {
	given := f.Server.Servlet.ContextPath
	if given == nil {
		return DefaultContextPath, nil
	}
	out := strings.TrimSuffix(strings.TrimSpace(*given), "/")
	if !plainPath.MatchString(out) || out != "" && path.Clean(out) != out {
		return "", fmt.Errorf("server.servlet.context-path is %q: set a path such as %s, or / for none", *given, DefaultContextPath)
	}
	return out, nil
}
