// Gets a page by Zig's std.http.Client, whose TLS is std.crypto.tls.
//
//     client CERTIFICATE URL
const std = @import("std");

pub fn main(start: std.process.Init) !void {
    var arguments = start.minimal.args.iterate();
    _ = arguments.next();
    const now = std.Io.Timestamp.now(start.io, .real);
    var client: std.http.Client = .{ .allocator = start.gpa, .io = start.io, .now = now };
    try client.ca_bundle.addCertsFromFilePathAbsolute(start.gpa, start.io, now, arguments.next().?);
    defer client.deinit();
    const answer = try client.fetch(.{ .location = .{ .url = arguments.next().? } });
    std.debug.print("{d}\n", .{@intFromEnum(answer.status)});
}
