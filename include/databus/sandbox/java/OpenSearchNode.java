import org.codelibs.opensearch.runner.OpenSearchRunner;

/** One OpenSearch node in the foreground: OpenSearchNode BASE_FOLDER HTTP_PORT TRANSPORT_PORT. */
public final class OpenSearchNode {
  private OpenSearchNode() {}

  public static void main(String[] args) throws Exception {
    String baseFolder = args[0];
    int httpPort = Integer.parseInt(args[1]);
    int transportPort = Integer.parseInt(args[2]);

    OpenSearchRunner runner = new OpenSearchRunner();
    // The runner looks for a free port only up to this limit, which is low by default.
    runner.setMaxHttpPort(65535);
    runner.onBuild(
        (number, settings) -> {
          settings.put("network.host", "127.0.0.1");
          settings.put("http.port", httpPort);
          settings.put("transport.port", transportPort);
          settings.put("cluster.routing.allocation.disk.threshold_enabled", false);
          settings.put("node.store.allow_mmap", false);
        });
    Runtime.getRuntime().addShutdownHook(new Thread(() -> close(runner)));
    runner.build(
        OpenSearchRunner.newConfigs()
            .basePath(baseFolder)
            .clusterName("databus")
            .numOfNode(1)
            .baseHttpPort(httpPort - 1)
            .disableESLogger());
    Thread.currentThread().join();
  }

  private static void close(OpenSearchRunner runner) {
    try {
      runner.close();
    } catch (Exception e) {
      System.err.println("The node did not close in order: " + e);
    }
  }
}
