package daemon

import "golang.org/x/sys/unix"

// networkFileSystem returns the name of the file system of a directory if it is on another machine, or "".
func networkFileSystem(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return ""
	}
	names := map[int64]string{unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "CIFS", unix.CEPH_SUPER_MAGIC: "Ceph"}
	return names[int64(st.Type)] //nolint:unconvert // the types differ between architectures
}
