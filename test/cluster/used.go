package cluster

import (
	"encoding/json"
	"os"

	"mlkeeper.dev/test/rights"
)

// rightsFolder is the environment variable that names the folder for what the operators used of their rights; `make rbac-minimal` sets it.
const rightsFolder = "MLKEEPER_RIGHTS"

// writeUsed writes what each operator used of its rights to the folder for it, if there is one.
func (c *Cluster) writeUsed() error {
	folder := os.Getenv(rightsFolder)
	if folder == "" {
		return nil
	}
	log, err := os.Open(c.auditLog())
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	users := map[string]*rights.Used{}
	c.operators.Lock()
	for account, r := range c.operators.rights {
		// Of an operator with the roles of all controllers nobody can tell which of them a request needed.
		if len(r.Controllers) > 0 {
			users[userOf(account)] = &rights.Used{Roles: r.roles()}
		}
	}
	c.operators.Unlock()
	if err := rights.Read(log, users, c.lacksRight); err != nil {
		return err
	}
	all := make([]*rights.Used, 0, len(users))
	for _, used := range users {
		all = append(all, used)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(folder, "used-*.json")
	if err != nil {
		return err
	}
	if _, err := file.Write(text); err != nil {
		return err
	}
	return file.Close()
}

// lacksRight says that a line of the audit log is the refusal of a right that no test expects.
func (c *Cluster) lacksRight(line []byte) bool {
	var e auditEvent
	if err := json.Unmarshal(line, &e); err != nil {
		return false
	}
	what := e.refused()
	return what != "" && !c.expects(e.RequestReceivedTimestamp.Time, what)
}

// roles are the names of the roles in config/ that the operator has.
func (r Rights) roles() []string {
	out := []string{"mlkeeper-engine", "mlkeeper-leader-election", "mlkeeper-digest-key"}
	for _, controller := range r.Controllers {
		out = append(out, "mlkeeper-"+controller)
		if controller == "kserve" {
			out = append(out, "mlkeeper-kserve-payloads")
		}
	}
	if r.acts() && !r.Least {
		out = append(out, "mlkeeper-every-namespace")
	}
	return out
}
