//! Confined processes against files: outside, read-only and hidden ones.

use crate::{
    attempt::{Group, Outcome, must},
    probe::Probe,
};
use std::{fs, os::unix::fs::MetadataExt};

pub(crate) fn probes() -> Vec<Probe> {
    let ro = ("read-only mount", "EROFS");
    vec![
        Probe::outside("reading a file outside", "return read(CANARY)"),
        Probe::outside("listing a folder outside", "return os.listdir(OUTSIDE)"),
        Probe::outside("writing and appending to a file outside", "return each(lambda: write(CANARY), lambda: write(CANARY, how='a'))"),
        Probe::outside(
            "truncating a file outside, by path and by `O_TRUNC`",
            "return each(lambda: os.truncate(CANARY, 0), lambda: os.open(CANARY, os.O_RDONLY | os.O_TRUNC))",
        ),
        Probe::outside(
            "creating a file, a folder and a link outside",
            "return each(lambda: write(OUTSIDE + '/new'), lambda: os.mkdir(OUTSIDE + '/d'), lambda: os.symlink('/', OUTSIDE + '/l'))",
        ),
        Probe::outside(
            "deleting and renaming outside",
            "return each(lambda: os.unlink(OUTSIDE + '/etc/passwd'), lambda: os.rename(CANARY, OUTSIDE + '/x'))",
        ),
        Probe::new(
            "moving a file from outside into a mount, and from a mount to outside",
            ("mount namespace", "ENOENT"),
            ("Landlock", "EACCES|EXDEV|EACCES+EXDEV"),
            "return each(lambda: os.rename(CANARY, RW + '/x'), lambda: os.rename(RW + '/mine.txt', OUTSIDE + '/x'))",
        ),
        Probe::new(
            "creating a hard link to a file outside in a mount",
            ("mount namespace", "ENOENT"),
            ("Landlock", "EACCES|EXDEV"),
            "os.link(CANARY, RW + '/mine')\nreturn read(RW + '/mine')",
        ),
        Probe::outside("creating a symbolic link to outside in a mount and following it", "os.symlink(OUTSIDE, RW + '/own')\nreturn read(RW + '/own/canary.txt')")
            .afterwards(|world| Ok(fs::remove_file(world.project("rw/own")).map_err(|error| error.to_string())?)),
        Probe::outside("`/proc/self/root` and `/proc/self/cwd`", "return each(lambda: read('/proc/self/root' + CANARY), lambda: read('/proc/self/cwd' + CANARY))"),
        Probe::new(
            "the root of the first process (`/proc/1/root`)",
            ("process namespace, no capabilities", "EACCES|ENOENT"),
            ("Landlock", "EACCES"),
            "return read(f'/proc/{os.getppid() if FREE else 1}/root{CANARY}')",
        )
        .control_as_root("ok"),
        Probe::new(
            "the working folder of another process (`/proc/N/cwd`)",
            ("process namespace", "ENOENT"),
            ("Landlock", "EACCES"),
            "return read(f'/proc/{VICTIM}/cwd/canary.txt')",
        ),
        Probe::new(
            "the open files of another process (`/proc/N/fd`)",
            ("process namespace", "ENOENT"),
            ("Landlock", "EACCES"),
            "return read(f'/proc/{VICTIM}/fd/0')",
        ),
        Probe::new(
            "password hashes and the home of root (`/etc/shadow`, `/root`)",
            ("mount namespace", "ENOENT"),
            ("Landlock", "EACCES"),
            "return each(lambda: read('/etc/shadow'), lambda: os.listdir('/root'))",
        )
        .control_as_root("ok"),
        Probe::new(
            "replacing or adding programs of the machine",
            ("read-only mounts", "EROFS|EACCES+EROFS"),
            ("Landlock", "EACCES"),
            "new = [] if FREE else [lambda: os.open('/usr/bin/llm-do-probe', os.O_CREAT | os.O_WRONLY)]\nreturn each(lambda: os.open('/usr/bin/tsort', os.O_WRONLY), lambda: os.open('/etc/passwd', os.O_WRONLY), *new)",
        )
        .control_as_root("ok")
        .afterwards(|_| must(!fs::exists("/usr/bin/llm-do-probe").unwrap(), "ESCAPE: a program was added")),
        Probe::new("writing to a read-only mount", ro, ("Landlock", "EACCES"), "return each(lambda: write(RO + '/theirs.txt'), lambda: write(RO + '/theirs.txt', how='a'), lambda: os.truncate(RO + '/theirs.txt', 0))"),
        Probe::new(
            "creating, deleting and replacing files in a read-only mount",
            ("read-only mount", "EROFS|EXDEV|EROFS+EXDEV|EXDEV+EROFS"),
            ("Landlock", "EACCES|EACCES+EXDEV"),
            "return each(lambda: write(RO + '/new'), lambda: os.unlink(RO + '/theirs.txt'), lambda: os.rename(RW + '/mine.txt', RO + '/theirs.txt'), lambda: os.rename(RO + '/theirs.txt', RW + '/x'))",
        ),
        Probe::new(
            "reopening a read-only descriptor for writing (`/proc/self/fd`)",
            ro,
            ("Landlock", "EACCES"),
            "fd = os.open(RO + '/theirs.txt', os.O_RDONLY)\nreturn write(f'/proc/self/fd/{fd}')",
        ),
        Probe::new(
            "a hard link from a read-only mount into a writable one",
            ("mounts", "EXDEV"),
            ("Landlock", "EACCES|EXDEV"),
            "os.link(RO + '/theirs.txt', RW + '/theirs')\nreturn write(RW + '/theirs')",
        ),
        Probe::new(
            "a hard link by descriptor (`O_PATH`, `/proc/self/fd`)",
            ("mounts, no capabilities", "EXDEV|ENOENT|EPERM|ENOENT+EXDEV|EPERM+EXDEV|EXDEV+EPERM"),
            ("Landlock", "EACCES|EXDEV|ENOENT|ENOENT+EXDEV|EXDEV+EACCES|EACCES+ENOENT|EACCES+EXDEV|EPERM+EXDEV"),
            r#"
            fd = os.open(RO + '/theirs.txt', os.O_PATH)
            def empty():
                return syscall(265, 37, fd, b'', -100, (RW + '/theirs').encode(), 0x1000)
            def followed():
                return syscall(265, 37, -100, f'/proc/self/fd/{fd}'.encode(), -100, (RW + '/followed').encode(), 0x400)
            return each(followed, empty)
            "#,
        ),
        Probe::new("an unnamed file (`O_TMPFILE`) in a read-only mount", ro, ("Landlock", "EACCES"), "return os.open(RO, os.O_TMPFILE | os.O_RDWR)"),
        Probe::new(
            "changing the mode of a read-only file, by path, descriptor and `fchmodat2`",
            ro,
            ("seccomp", "EPERM"),
            "p = RO + '/theirs.txt'\nreturn each(lambda: os.chmod(p, 0o777), lambda: os.fchmod(os.open(p, 0), 0o777), lambda: syscall(452, 452, -100, p.encode(), 0o777, 0))",
        ),
        Probe::new(
            "changing the owner of a read-only file",
            ro,
            ("seccomp", "EPERM"),
            "p = RO + '/theirs.txt'\nreturn each(lambda: os.chown(p, os.getuid(), os.getgid()), lambda: os.fchown(os.open(p, 0), os.getuid(), -1))",
        ),
        Probe::new("changing the times of a read-only file", ro, ("seccomp", "EPERM"), "p = RO + '/theirs.txt'\nreturn each(lambda: os.utime(p, (1, 1)), lambda: os.utime(os.open(p, 0), (1, 1)))"),
        Probe::new(
            "reading the extended attributes of a file outside",
            ("mount namespace", "ENOENT"),
            ("seccomp", "EOPNOTSUPP|ENOTSUP"),
            "return each(lambda: os.getxattr(CANARY, 'user.x'), lambda: os.listxattr(CANARY))",
        )
        .prepare(|world| {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(world.outside("canary.txt"), "user.x", world.secret.as_bytes(), flags).unwrap();
        }),
        Probe::filtered(
            "a lease on a read-only file and a watch on its folder (`F_SETLEASE`, `F_NOTIFY`)",
            "import fcntl\nfile, folder = os.open(RO + '/theirs.txt', 0), os.open(RO, 0)\nreturn each(lambda: fcntl.fcntl(file, 1024, 0), lambda: fcntl.fcntl(folder, 1026, 0x10))",
        ),
        Probe::new("setting extended attributes of a read-only file", ro, ("seccomp", "EPERM"), "p = RO + '/theirs.txt'\nreturn each(lambda: os.setxattr(p, 'user.x', b'1'), lambda: os.setxattr(os.open(p, 0), 'user.x', b'1'))"),
        Probe::new(
            "changing the flags of a read-only file, by `ioctl` on its descriptor",
            ro,
            ("seccomp", "EPERM"),
            "import fcntl, struct\nfd = os.open(RO + '/theirs.txt', 0)\nreturn fcntl.ioctl(fd, 0x40086602, struct.pack('l', 0x80))",
        ),
        Probe::filtered(
            "creating a set-user-ID file (`chmod`, `open`, `mknod`, `O_TMPFILE`)",
            "p = RW + '/mine.txt'\nreturn each(lambda: os.chmod(p, 0o4755), lambda: os.fchmod(os.open(p, 2), 0o2755), lambda: os.open(RW + '/s', os.O_CREAT | os.O_WRONLY, 0o4755), lambda: os.mknod(RW + '/t', 0o104755), lambda: os.open(RW, os.O_TMPFILE | os.O_RDWR, 0o4755))",
        )
        .afterwards(|world| {
            let mode = fs::metadata(world.project("rw/mine.txt")).unwrap().mode();
            must(mode & 0o6000 == 0, format!("ESCAPE: mode {mode:o}"))
        }),
        Probe::new(
            "creating a device in a mount",
            ("user namespace", "EPERM|EACCES"),
            ("no capabilities, Landlock", "EPERM|EACCES"),
            "return each(lambda: os.mknod(RW + '/mem', 0o020600, os.makedev(1, 1)), lambda: os.mknod(RW + '/disk', 0o060600, os.makedev(254, 0)))",
        )
        .control_as_root("ok"),
        Probe::new(
            "creating a FIFO in a mount, where others would block",
            ("Landlock", "EACCES"),
            ("Landlock", "EACCES"),
            "return os.mkfifo(RW + '/fifo')",
        ),
        Probe::outside(
            "the machine's memory, log and disks (`/dev/mem`, `/dev/kmsg`, …)",
            "names = ('kmsg',) if FREE else ('kmsg', 'mem', 'port', 'vda', 'sda', 'nvme0n1', 'loop0', 'fuse', 'kvm', 'net/tun')\nhere = [n for n in names if n == 'kmsg' or os.path.exists('/dev/' + n)]\nreturn each(*[lambda n=n: os.open('/dev/' + n, os.O_RDONLY) for n in here])",
        )
        .control_as_root("ok"),
        Probe::outside(
            "terminals (`/dev/tty`, `/dev/ptmx`, `/dev/console`)",
            "return each(*[lambda n=n: os.open('/dev/' + n, os.O_RDWR | os.O_NOCTTY) for n in (('ptmx',) if FREE else ('ptmx', 'console', 'tty0'))])",
        ),
        Probe::outside("kernel information about the machine (`/sys`)", "return each(lambda: os.listdir('/sys/kernel'), lambda: read('/sys/kernel/notes'))"),
        Probe::new(
            "kernel settings (`/proc/sys`)",
            ("no capabilities, Landlock", "EACCES|EROFS|ENOENT|EPERM|EACCES+EROFS|EACCES+ENOENT"),
            ("Landlock", "EACCES"),
            "return each(lambda: os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY), lambda: os.open('/proc/sys/vm/drop_caches', os.O_WRONLY))",
        )
        .control_as_root("ok"),
        Probe::new(
            "its own `oom_score_adj` in `/proc`",
            ("Landlock", "EACCES"),
            ("Landlock", "EACCES"),
            "return write('/proc/self/oom_score_adj', '500')",
        ),
        Probe::new(
            "reading a hidden file (`.env`) in a visible folder",
            ("masked by a mount", "EACCES|ok"),
            ("such a folder is not made visible", "EACCES"),
            "return read(PROJECT + '/.env')",
        )
        .whole()
        .outcome(Outcome::NotThere),
        Probe::new(
            "reading the journals of other runs (`.llm-do`)",
            ("masked by a mount", "EACCES|ENOENT"),
            ("such a folder is not made visible", "EACCES"),
            "return read(PROJECT + '/.llm-do/journal')",
        )
        .whole(),
        Probe::new(
            "replacing a file that defines the program, by writing, renaming and exchanging",
            ("masked by a mount", "EBUSY|EROFS|EBUSY+EROFS|EROFS+EBUSY"),
            ("such a folder is not made visible", "EACCES|EACCES+EXDEV"),
            r#"
            p = PROJECT + '/main.worker'
            other = PROJECT + '/notes/plan.md'
            return each(lambda: os.unlink(p), lambda: write(p), lambda: syscall(316, 276, -100, other.encode(), -100, p.encode(), 2),
                        lambda: os.rename(other, p), lambda: os.rename(p, PROJECT + '/x'))
            "#,
        )
        .whole(),
        Probe::new(
            "a hook in `.git`, or another folder in the place of `.git`",
            ("masked by a mount", "EBUSY|EROFS|EBUSY+EROFS"),
            ("such a folder is not made visible", "EACCES|EACCES+EXDEV"),
            "g = PROJECT + '/.git'\nreturn each(lambda: os.mkdir(g + '/hooks'), lambda: write(g + '/config'), lambda: os.rename(g, PROJECT + '/git'), lambda: os.rename(PROJECT + '/notes', g))",
        )
        .whole(),
        Probe::new(
            "a hard link to a hidden file",
            ("masked by a mount", "EXDEV"),
            ("such a folder is not made visible", "EACCES|EXDEV"),
            "os.link(PROJECT + '/.env', PROJECT + '/notes/found')\nreturn read(PROJECT + '/notes/found')",
        )
        .whole(),
        Probe::new(
            "a hidden file after moving its folder",
            ("masked by a mount, which moves with the folder", "EACCES|ok"),
            ("such a folder is not made visible", "EACCES|EXDEV"),
            "os.rename(PROJECT + '/sub', PROJECT + '/moved')\nreturn read(PROJECT + '/moved/deep/.env')",
        )
        .whole()
        .prepare(|world| {
            world.put("sub/deep/.env", &world.secret);
        })
        .outcome(Outcome::NotThere)
        .afterwards(|world| {
            let _ = fs::rename(world.project("moved"), world.project("sub"));
            Ok(())
        }),
    ]
}

pub(crate) fn group() -> Group {
    Group {
        title: "Confined processes and files",
        about: "A Python function runs in each tier; the error that it gets shows which mechanism stopped \
                it. The control runs the same function unconfined, in another world, where it must succeed.",
        attempts: probes().into_iter().map(Probe::attempt).collect(),
    }
}
