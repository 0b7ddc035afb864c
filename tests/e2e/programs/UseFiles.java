// Java's file classes, each of which is another call: channels, maps, transfers, streams, random access, copies.
import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousFileChannel;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.util.HexFormat;

public class UseFiles {
    static String digest(ByteBuffer... parts) throws Exception {
        MessageDigest hash = MessageDigest.getInstance("SHA-256");
        for (ByteBuffer part : parts) hash.update(part);
        return HexFormat.of().formatHex(hash.digest());
    }

    static void said(String name, byte[] bytes) throws Exception {
        System.out.println(name + " " + digest(ByteBuffer.wrap(bytes)));
    }

    static void channels(Path path) throws Exception {
        try (FileChannel file = FileChannel.open(path)) {
            System.out.println("size " + file.size());
            System.out.println("map " + digest(file.map(FileChannel.MapMode.READ_ONLY, 0, file.size())));
            System.out.println("map part " + digest(file.map(FileChannel.MapMode.READ_ONLY, 100001, 50000)));
            ByteBuffer direct = ByteBuffer.allocateDirect(30000);
            ByteBuffer heap = ByteBuffer.allocate(5000);
            file.read(direct, 123456);
            file.position(77);
            file.read(new ByteBuffer[] {heap, ByteBuffer.allocate(10)});
            System.out.println("reads " + file.position() + " " + digest(direct.flip(), heap.flip()));
            try (FileChannel out = FileChannel.open(Path.of("out"), StandardOpenOption.CREATE, StandardOpenOption.WRITE,
                     StandardOpenOption.TRUNCATE_EXISTING)) {
                for (long done = 0; done < file.size();) done += file.transferTo(done, file.size() - done, out);
            }
        }
        said("transferTo", Files.readAllBytes(Path.of("out")));
        try (FileChannel out = FileChannel.open(Path.of("out"), StandardOpenOption.WRITE); FileChannel in = FileChannel.open(path)) {
            System.out.println("transferFrom " + out.transferFrom(in, 0, 100000));
        }
        said("transferFrom", Files.readAllBytes(Path.of("out")));
    }

    static void whole(Path path) throws Exception {
        said("readAllBytes", Files.readAllBytes(path));
        Files.copy(path, Path.of("copy"), StandardCopyOption.REPLACE_EXISTING);
        said("copy", Files.readAllBytes(Path.of("copy")));
        try (FileInputStream in = new FileInputStream(path.toFile())) {
            said("skip", new byte[] {(byte) in.skip(70000)});
            said("stream", in.readNBytes(100000));
            System.out.println("available " + in.available());
        }
        try (RandomAccessFile file = new RandomAccessFile(path.toFile(), "r")) {
            byte[] some = new byte[1000];
            file.seek(file.length() - 1000);
            file.readFully(some);
            said("random access", some);
            System.out.println(file.read());
        }
        try (AsynchronousFileChannel file = AsynchronousFileChannel.open(path)) {
            ByteBuffer some = ByteBuffer.allocate(65536);
            file.read(some, 4097).get();
            System.out.println("asynchronous " + digest(some.flip()));
        }
    }

    public static void main(String[] args) throws Exception {
        for (String name : new String[] {"words.txt", "noise.bin", "large.bin"}) {
            System.out.println(name);
            channels(Path.of(args[0], name));
            whole(Path.of(args[0], name));
        }
        try (var lines = Files.lines(Path.of(args[0], "words.txt"))) {
            System.out.println("lines " + lines.mapToLong(String::length).sum());
        }
        try (BufferedReader reader = Files.newBufferedReader(Path.of(args[0], "words.txt"))) {
            System.out.println(reader.readLine());
        }
        try (var names = Files.walk(Path.of(args[0]))) {
            System.out.println(names.map(Path::toString).sorted().toList());
        }
        try {
            Files.size(Path.of(args[0], "none"));
        } catch (NoSuchFileException error) {
            System.out.println("none");
        }
    }
}
